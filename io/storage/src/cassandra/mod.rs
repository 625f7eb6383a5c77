//! stub
pub struct CassandraStore;
impl CassandraStore {
    pub async fn connect(url: &str) -> Result<crate::MemoryStore, crate::StoreError> {
        Err(crate::StoreError::Url {
            url: url.into(),
            problem: "".into(),
        })
    }
}
