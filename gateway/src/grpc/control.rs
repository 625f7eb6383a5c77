//! ControlService.

use crate::context::Gateway;
use crate::error::missing;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::control::{Switches, get_control, rotate_token_key, update_control};
use echelon_proto::convert::control::{control, read_kills};
use echelon_proto::convert::shard::Changed;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::control_service_server::ControlService;

#[tonic::async_trait]
impl ControlService for Gateway {
    async fn get_control(
        &self,
        _: Request<v1::GetControlRequest>,
    ) -> Result<Response<v1::GetControlResponse>, Status> {
        self.call("ControlService/GetControl", async {
            let found = get_control(&self.facts).await?;
            self.switches.know(&found);
            Ok(v1::GetControlResponse {
                control: Some(control(&found)),
            })
        })
        .await
    }

    async fn update_control(
        &self,
        request: Request<v1::UpdateControlRequest>,
    ) -> Result<Response<v1::UpdateControlResponse>, Status> {
        self.call("ControlService/UpdateControl", async {
            let wanted = request.into_inner().control.ok_or_else(|| missing("control"))?;
            let after = update_control(&self.facts, read(wanted)?, self.now()).await?;
            self.switches.know(&after);
            self.links.hint(Changed::Pools);
            Ok(v1::UpdateControlResponse {
                control: Some(control(&after)),
            })
        })
        .await
    }

    async fn rotate_token_key(
        &self,
        request: Request<v1::RotateTokenKeyRequest>,
    ) -> Result<Response<v1::RotateTokenKeyResponse>, Status> {
        self.call("ControlService/RotateTokenKey", async {
            let etag = request.into_inner().etag;
            let after = rotate_token_key(&self.facts, &etag, [Self::chance(), Self::chance()]).await?;
            self.switches.know(&after);
            Ok(v1::RotateTokenKeyResponse {
                control: Some(control(&after)),
            })
        })
        .await
    }
}

fn read(wanted: v1::Control) -> Result<Switches, ApiError> {
    let kills_off =
        read_kills(wanted.kills).ok_or_else(|| ApiError::field("control.kills", "must be on or off"))?;
    Ok(Switches {
        kills_off,
        by: wanted.by,
        why: wanted.why,
        etag: wanted.etag,
    })
}
