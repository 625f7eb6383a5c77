//! `echelon job plan`: what would become of a job file, with its defaults filled in, without submitting it.

use super::{run, show};
use crate::context::Context;
use crate::exit::Failure;
use crate::{output, schedule, shape};
use echelon_clients_rust::v1;
use std::path::Path;

/// Plans a job file.
pub async fn plan(context: &Context, file: &Path) -> Result<(), Failure> {
    let spec = run::read(file)?;
    let client = context.client().await?;
    let request = v1::PlanJobRequest { spec: Some(spec) };
    let answer = client.repeat(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.plan_job(request).await }
    });
    let told = answer.await?;
    let value = output::message("PlanJobResponse", &told);
    let name = told.spec.as_ref().map(|s| s.name.clone()).unwrap_or_default();
    print!("{}", output::one(&value, &name, &people(&told), context.format()));
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
            "cluster:   {} gets {}{group}{reason}",
            output::escape(&c.cluster),
            c.instances
        ));
    }
    if daemon {
        lines.push("hosts:     all that may be placed on are counted; which of them its constraints let, shards find out".to_owned());
    }
    lines.extend(told.waiting.iter().map(show::waiting));
    if let Some(of) = &spec.schedule {
        lines.extend(schedule::due("next:", of, &told.next_times));
    }
    lines.push("nothing was changed; `-o yaml` shows the job with every default filled in".to_owned());
    lines.join("\n") + "\n"
}
