//! The service by which a process says what it is in its role. Every role serves the same one.

use crate::convert::Wire;
use crate::echelon::shard::v1 as wire;
use echelon_core_model::role_state::RoleState;
use tonic::{Request, Response, Status};
use wire::role_service_server::{RoleService, RoleServiceServer};

/// Answers with what a function gives, from memory.
struct StateOf<F>(F);

#[tonic::async_trait]
impl<F: Fn() -> RoleState + Send + Sync + 'static> RoleService for StateOf<F> {
    async fn get_role_state(
        &self,
        _: Request<wire::GetRoleStateRequest>,
    ) -> Result<Response<wire::GetRoleStateResponse>, Status> {
        let state = Some((self.0)().to_wire());
        Ok(Response::new(wire::GetRoleStateResponse { state }))
    }
}

/// The service of a process whose state `state` gives. It must not wait.
pub fn role_service(
    state: impl Fn() -> RoleState + Send + Sync + 'static,
) -> RoleServiceServer<impl RoleService> {
    RoleServiceServer::new(StateOf(state))
}
