//! StatusService.

use crate::context::Gateway;
use crate::status::status;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::status_service_server::StatusService;

#[tonic::async_trait]
impl StatusService for Gateway {
    async fn get_status(
        &self,
        _: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        self.call("StatusService/GetStatus", async {
            let status = Some(status(self).await);
            Ok(v1::GetStatusResponse { status })
        })
        .await
    }
}
