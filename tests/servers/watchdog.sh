# Ends what a test has started, however the test ends. Arguments: the test's work folder, "keep" or "remove".
# Standard input is the leash: the test holds its other end, and the system closes it when the test is gone.
# Every process that the test starts has its current folder below the work folder, which is how it is known here.
trap '' INT TERM HUP
folder=$1
cat > /dev/null

below_folder() {
  for process in /proc/[0-9]*; do
    case "$(readlink "$process/cwd" 2> /dev/null)/" in
      "$folder"/*) echo "${process#/proc/}" ;;
    esac
  done
}

# what is killed may be about to start another one, so look until there is none
for _ in 1 2 3 4 5 6 7 8 9 10; do
  processes=$(below_folder)
  [ -n "$processes" ] || break
  kill -9 $processes 2> /dev/null
  sleep 0.05
done
# disks of a test: a folder below a mount cannot be removed
awk -v folder="$folder/" 'index($2, folder) == 1 { print $2 }' /proc/mounts | while read -r mount; do
  umount -l "$mount" 2> /dev/null
done
[ "$2" = keep ] || rm -rf "$folder"
