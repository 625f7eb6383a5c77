# One run of `echelon demo --scenario cluster-loss`. Its marks are the times of its files: `.begun`, `.beat` as long as
# it lives, `.stopped` when it is asked to end, `.result` when it has done its work. It ends by itself after some
# minutes, so that nothing outlives a demo that was killed.
me="$MARKS/$ECHELON_JOB.$ECHELON_INSTANCE.$ECHELON_CLUSTER.$ECHELON_GENERATION.$ECHELON_RUN.$$"
trap 'echo > "$me.stopped"; exit 143' TERM
echo > "$me.begun"
beats=0
while [ $beats -lt 1200 ]; do
    echo > "$me.beat" || exit 1
    if [ "$1" = until-finish ] && [ -e "$MARKS/finish" ]; then
        echo > "$me.result"
        exit 0
    fi
    sleep 0.5
    beats=$((beats + 1))
done
exit 1
