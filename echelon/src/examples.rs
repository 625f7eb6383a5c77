//! The example jobs, inside the program, so that `demo` runs from an installed binary as well as from a clone.

/// The files of `examples/`, by name.
pub const FILES: [(&str, &str); 4] = [
    ("hello.yaml", include_str!("../../examples/hello.yaml")),
    ("checksum.yaml", include_str!("../../examples/checksum.yaml")),
    ("service.yaml", include_str!("../../examples/service.yaml")),
    ("web.yaml", include_str!("../../examples/web.yaml")),
];
