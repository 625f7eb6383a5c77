//! The example jobs, inside the program, so that `demo` runs from an installed binary as well as from a clone.

/// The files of `examples/`, by name.
pub const FILES: [(&str, &str); 5] = [
    ("hello.yaml", include_str!("../../examples/hello.yaml")),
    ("checksum.yaml", include_str!("../../examples/checksum.yaml")),
    ("service.yaml", include_str!("../../examples/service.yaml")),
    ("pod.yaml", include_str!("../../examples/pod.yaml")),
    ("web.yaml", include_str!("../../examples/web.yaml")),
];
