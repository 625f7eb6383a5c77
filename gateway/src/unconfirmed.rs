//! What of the counts of listed jobs is unconfirmed. Where the instances of a job are is in its assignment,
//! which lists do without. So assignments are read only while what is shown of a cluster may be old.

use crate::context::Gateway;
use echelon_core_gateway::page::Page;
use echelon_core_gateway::view::{Federation, JobView, Part};
use echelon_core_gateway::{ApiError, ask};
use futures::{StreamExt, stream};

/// Assignments that are read side by side.
const READ_AT_ONCE: usize = 16;

/// The same jobs, each with those of its clusters of which what is shown may be old. A job that has ended is
/// as it is stored. Where an assignment cannot be read, how much of the job is there is not known.
pub(crate) async fn with_stale_parts(
    gateway: &Gateway,
    page: Page<JobView>,
) -> Result<Page<JobView>, ApiError> {
    let federation = Federation::read(&gateway.facts).await?;
    let stale: Vec<Part> = federation.stale_parts(gateway.now()).collect();
    if stale.is_empty() {
        return Ok(page);
    }
    let marked = page.items.into_iter().map(|view| marked(gateway, view, &stale));
    let marked: Vec<_> = marked.collect();
    Ok(Page {
        items: stream::iter(marked).buffered(READ_AT_ONCE).collect().await,
        next: page.next,
        total: page.total,
        unread: page.unread,
    })
}

async fn marked(gateway: &Gateway, view: JobView, stale: &[Part]) -> JobView {
    if view.state().is_ended() {
        return view;
    }
    let assignment = ask::assignment(&gateway.facts, view.head.job).await;
    if let Err(error) = &assignment {
        tracing::debug!(%error, job = %view.head.job, "where its instances are cannot be read at the moment");
    }
    view.with_stale_parts(assignment.ok().as_ref(), stale)
}
