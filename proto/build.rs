//! Compiles every `.proto` below `proto/` without a protoc binary and writes one descriptor set for all packages.
//! Services are generated only with the feature `grpc`, so that pure crates need no tonic.

use prost_types::{DescriptorProto, FileDescriptorSet};
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

    fs::write(out.join("sizes.rs"), sizes(&set))?;

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

/// How many bytes each of our messages takes in memory, without what it points to, as a table by name.
fn sizes(set: &FileDescriptorSet) -> String {
    let ours = set
        .file
        .iter()
        .filter(|file| file.package().starts_with("echelon."));
    let rows = ours.flat_map(|file| {
        let module = file.package().replace('.', "::");
        file.message_type
            .iter()
            .flat_map(move |message| rows(file.package(), &format!("crate::{module}"), message))
    });
    format!("&[\n{}]", rows.collect::<String>())
}

fn rows(package: &str, module: &str, message: &DescriptorProto) -> Vec<String> {
    if message
        .options
        .as_ref()
        .is_some_and(|options| options.map_entry())
    {
        return Vec::new();
    }
    let name = format!("{package}.{}", message.name());
    let row = format!(
        "    (\"{name}\", ::core::mem::size_of::<{module}::{}>()),\n",
        message.name()
    );
    let within = format!("{module}::r#{}", message.name().to_ascii_lowercase());
    let nested = message
        .nested_type
        .iter()
        .flat_map(|inner| rows(&name, &within, inner));
    std::iter::once(row).chain(nested).collect()
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
