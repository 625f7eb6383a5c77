//! EventService.

use super::{page, shown, total};
use crate::context::Gateway;
use echelon_core_gateway::events::{all_events, list_events};
use echelon_core_gateway::resource;
use echelon_proto::convert::event::event;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::event_service_server::EventService;

#[tonic::async_trait]
impl EventService for Gateway {
    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        self.call("EventService/ListEvents", async {
            let r = request.into_inner();
            let job = resource::job(&r.parent, "parent")?;
            let asked = page(r.page_size, r.page_token);
            let found = if r.oldest_first {
                all_events(&self.facts, &job, asked, self.now()).await?
            } else {
                list_events(&self.facts, &job, asked, self.now()).await?
            };
            let total_size = total(&found);
            let (events, next_page_token) = shown(found, event);
            Ok(v1::ListEventsResponse {
                events,
                next_page_token,
                total_size,
            })
        })
        .await
    }
}
