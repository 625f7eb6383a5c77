//! Compiles every `.proto` below `proto/` without a protoc binary and writes one descriptor set for all packages.
//! Services are generated only with the feature `grpc`, so that pure crates need no tonic.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

const ROOT: &str = "proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let grpc = env::var_os("CARGO_FEATURE_GRPC").is_some();

    let mut sources = Vec::new();
    collect(Path::new(ROOT), &mut sources)?;
    sources.sort();

    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_files(&sources)?;
    let set = compiler.file_descriptor_set();

    // Reflection answers with this one; comments are left out, since nobody reads them there.
    let mut bare = set.clone();
    for file in &mut bare.file {
        file.source_code_info = None;
    }
    fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&bare))?;

    // The table of ranges knows messages by their names.
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .codec_path("crate::codec::CheckedCodec")
        .build_client(grpc)
        .build_server(grpc)
        .btree_map(".")
        .include_file("packages.rs")
        .compile_fds_with_config(set, config)?;
    Ok(())
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, sources)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            sources.push(path);
        }
    }
    Ok(())
}
