//! Where the text of a `mod name;` stands.

/// Path of `module`, declared in the file `parent`, without `.rs` or `/mod.rs`.
pub(super) fn path(module: &syn::ItemMod, parent: &str) -> String {
    let (folder, file) = parent.rsplit_once('/').unwrap_or((".", parent));
    if let Some(named) = module.attrs.iter().find_map(named) {
        return format!("{folder}/{}", named.trim_end_matches(".rs"));
    }
    match file.trim_end_matches(".rs") {
        "lib" | "main" | "mod" => format!("{folder}/{}", module.ident),
        stem => format!("{folder}/{stem}/{}", module.ident),
    }
}

/// The file that `#[path = ".."]` names.
fn named(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    let syn::Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(path),
        ..
    }) = &pair.value
    else {
        return None;
    };
    pair.path.is_ident("path").then(|| path.value())
}
