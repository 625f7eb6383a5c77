//! Pools.

use super::Fields;
use super::layout::Page;
use super::part::{encode, page_request, pager, quantity};
use crate::context::Gateway;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::pools::list_pools;
use echelon_core_model::resources::Kind;
use maud::html;

pub(super) async fn all(gateway: &Gateway, fields: &Fields) -> Result<Page, ApiError> {
    let found = list_pools(&gateway.facts, page_request(fields, "page")).await?;
    let live = html! {
        div.table { table {
            thead { tr {
                th { "Pool" }
                @for kind in [Kind::Cpus, Kind::Memory, Kind::Disk, Kind::Gpus] { th { (kind) ": reserved, limit, share" } }
            } }
            tbody { @for pool in &found.items { tr {
                td { a #{ "p-" (pool.path) } href={ "/jobs?pool=" (encode(&pool.path)) } { (pool.path) } @if pool.deleting { span.warn { " deleting" } } }
                @for kind in [Kind::Cpus, Kind::Memory, Kind::Disk, Kind::Gpus] {
                    td { (quantity(kind, &pool.reservation)) ", " (quantity(kind, &pool.limit)) ", " (pool.share.get(kind)) }
                }
            } } }
        } }
        (pager("/pools", fields, "page", found.next.as_ref()))
    };
    Ok(Page {
        title: "Pools".to_owned(),
        command: Some("echelon pool list".to_owned()),
        head: html! {},
        live,
    })
}
