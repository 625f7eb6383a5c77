//! `echelon job plan`: what would become of a job file, with its defaults filled in, without submitting it.

use super::show;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{job_file, output, schedule, shape};
use echelon_clients_rust::v1;
use echelon_proto::convert;
use std::path::Path;

/// What a gateway says would become of a job file.
async fn ask(context: &Context, file: &Path) -> Result<v1::PlanJobResponse, Failure> {
    let wanted = job_file::read(file)?;
    let client = context.client().await?;
    let request = v1::PlanJobRequest {
        spec: Some(wanted.spec.clone()),
    };
    let answer = client.repeat(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.plan_job(request).await }
    });
    answer.await.map_err(|e| wanted.failure(e))
}

/// Has a job file judged as if it were submitted, and prints it as it would be kept, with every default written out. That is what the
/// gateway answers, so that the pool's defaults are in it, and nothing that the gateway does not know.
pub async fn dry_run(context: &Context, file: &Path) -> Result<(), Failure> {
    let told = ask(context, file).await?.spec.unwrap_or_default();
    let spec = convert::spec::from_wire(told).map_err(|why| {
        let message = format!("the gateway answers with what this version cannot read: {why}");
        Failure::new(Exit::Failed, message)
    })?;
    output::print(job_file::write(&spec, context.format()));
    Ok(())
}

/// Plans a job file.
pub async fn plan(context: &Context, file: &Path) -> Result<(), Failure> {
    let told = ask(context, file).await?;
    let value = output::message("PlanJobResponse", &told);
    let name = told.spec.as_ref().map(|s| s.name.clone()).unwrap_or_default();
    output::print(output::one(&value, &name, &people(&told), context.format()));
    Ok(())
}

fn people(told: &v1::PlanJobResponse) -> String {
    let spec = told.spec.clone().unwrap_or_default();
    let daemon = spec.kind() == v1::JobKind::Daemon;
    let wanted: u64 = if daemon {
        told.clusters.iter().map(|c| c.instances).sum()
    } else {
        spec.groups.iter().map(|g| u64::from(g.instances)).sum()
    };
    let mut lines = vec![format!(
        "{} of {wanted} instances of {} could start now",
        told.startable,
        output::escape(&spec.name)
    )];
    if let Some(pool) = &told.pool {
        lines.push(format!(
            "pool:      {} (limit {}; entitled to {}; in use {})",
            output::escape(&pool.path),
            shape::limit(pool.limit.as_ref()),
            shape::resources(pool.entitlement.as_ref()),
            shape::resources(pool.allocated.as_ref()),
        ));
    }
    for c in &told.clusters {
        let reason = c
            .reason
            .as_ref()
            .map(|r| format!(": {}", output::escape(&r.message)))
            .unwrap_or_default();
        let group = if c.group.is_empty() {
            String::new()
        } else {
            format!(" of group {}", output::escape(&c.group))
        };
        lines.push(format!(
            "cluster:   {} could start {}{group}{reason}",
            output::escape(&c.cluster),
            c.instances
        ));
    }
    if daemon {
        lines.push("hosts:     all that may be placed on are counted; which of them its constraints let, shards find out".to_owned());
    }
    lines.extend(
        told.warnings
            .iter()
            .map(|w| format!("warning:   {}", output::escape(w))),
    );
    lines.extend(told.waiting.iter().map(show::waiting));
    lines.extend(show::after(&spec));
    if !spec.after.is_empty() {
        lines.push("           until then it waits; above is what could start if it need not".to_owned());
    }
    if let Some(of) = &spec.schedule {
        lines.extend(schedule::due("next:", of, &told.next_times));
    }
    lines.push(
        "nothing was changed; `echelon job run --dry-run` prints the file with every default written out"
            .to_owned(),
    );
    lines.join("\n") + "\n"
}
