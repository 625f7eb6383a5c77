//! One Rust file, parsed: its functions with their lengths, its attributes, and which of its lines are tests.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::test_module;

/// A Rust file of the tree.
pub struct RustFile {
    /// Path below the tree's root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Functions and methods outside tests.
    pub functions: Vec<Function>,
    /// `allow` and `expect` attributes that give no reason, tests included.
    pub unreasoned: Vec<Unreasoned>,
    /// Modules in other files that it takes in for tests only, each as a path without `.rs` or `/mod.rs`.
    pub(super) test_modules: Vec<String>,
    /// Whether another file takes it in for tests only.
    pub(super) is_test_module: bool,
    test_lines: usize,
}

/// A function or method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// First line of its signature.
    pub line: usize,
    /// Lines from its signature to its closing brace.
    pub n_lines: usize,
}

/// An attribute that switches a lint off and does not say why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreasoned {
    /// Where it stands.
    pub line: usize,
}

impl RustFile {
    pub(super) fn read(root: &Path, path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(super::below(root, path), text)
    }

    /// Parses `text`, which stands at `path`.
    ///
    /// # Errors
    /// It is not Rust.
    pub fn parse(path: String, text: String) -> Result<Self> {
        let parsed = syn::parse_file(&text).with_context(|| format!("parse {path}"))?;
        let mut found = Found::default();
        found.visit_file(&parsed);
        let Found {
            functions,
            unreasoned,
            test_modules,
            test_lines,
        } = found;
        let test_modules = test_modules
            .iter()
            .map(|module| test_module::path(module, &path))
            .collect();
        Ok(Self {
            path,
            text,
            functions,
            unreasoned,
            test_modules,
            is_test_module: false,
            test_lines,
        })
    }

    /// Whether it is product code: no test, bench or example, not below `tests/`, and taken in for more than tests.
    #[must_use]
    pub fn is_production(&self) -> bool {
        let in_tests = |part: &str| matches!(part, "tests" | "benches" | "examples" | "tests.rs");
        !self.is_test_module && !self.path.split('/').any(in_tests)
    }

    /// Whether it is the file of `module`, or below that module's folder.
    pub(super) fn belongs_to(&self, module: &str) -> bool {
        let rest = self.path.strip_prefix(module);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    /// Lines without its `#[cfg(test)]` items.
    #[must_use]
    pub fn n_production_lines(&self) -> usize {
        self.text.lines().count().saturating_sub(self.test_lines)
    }
}

#[derive(Default)]
struct Found {
    functions: Vec<Function>,
    unreasoned: Vec<Unreasoned>,
    test_modules: Vec<syn::ItemMod>,
    test_lines: usize,
}

impl Found {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = signature.span().start().line..=block.span().end().line;
        let (line, n_lines) = (*lines.start(), length(&lines));
        self.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            n_lines,
        });
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if attributes(item).iter().any(is_cfg_test) {
            self.test_lines += length(&(item.span().start().line..=item.span().end().line));
            if let syn::Item::Mod(module @ syn::ItemMod { content: None, .. }) = item {
                self.test_modules.push(module.clone());
            }
            let mut inside = Self::default();
            visit::visit_item(&mut inside, item);
            self.unreasoned.append(&mut inside.unreasoned);
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if switches_off_without_reason(&attribute.meta) {
            self.unreasoned.push(Unreasoned {
                line: attribute.span().start().line,
            });
        }
    }
}

fn length(lines: &RangeInclusive<usize>) -> usize {
    (lines.end() + 1).saturating_sub(*lines.start())
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    // `any(test, feature = "..")` is for other crates' tests
    let for_tests = |tokens: &str| tokens == "test" || tokens.replace(' ', "").starts_with("any(test,");
    list.path.is_ident("cfg") && for_tests(&list.tokens.to_string())
}

/// `allow(..)` or `expect(..)` without `reason = ".."`, also inside `cfg_attr(..)`.
fn switches_off_without_reason(meta: &syn::Meta) -> bool {
    let syn::Meta::List(list) = meta else { return false };
    let tokens = list.tokens.to_string();
    let inside = |word: &str| tokens.contains(&format!("{word} (")) || tokens.contains(&format!("{word}("));
    let switches_off = list.path.is_ident("allow")
        || list.path.is_ident("expect")
        || (list.path.is_ident("cfg_attr") && (inside("allow") || inside("expect")));
    switches_off && !tokens.contains("reason =")
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(syn::ItemConst { attrs, .. })
        | Item::Enum(syn::ItemEnum { attrs, .. })
        | Item::Fn(syn::ItemFn { attrs, .. })
        | Item::Impl(syn::ItemImpl { attrs, .. })
        | Item::Macro(syn::ItemMacro { attrs, .. })
        | Item::Mod(syn::ItemMod { attrs, .. })
        | Item::Static(syn::ItemStatic { attrs, .. })
        | Item::Struct(syn::ItemStruct { attrs, .. })
        | Item::Trait(syn::ItemTrait { attrs, .. })
        | Item::Type(syn::ItemType { attrs, .. })
        | Item::Use(syn::ItemUse { attrs, .. }) => attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RustFile {
        RustFile::parse("room/src/file.rs".to_owned(), text.to_owned()).unwrap()
    }

    #[test]
    fn a_function_is_as_long_as_its_signature_and_body() {
        let file = parse(
            "impl A {\n    /// Doc.\n    #[must_use]\n    fn long(\n        a: u8,\n    ) {\n        a\n    }\n}\nfn short() {}\n",
        );
        let found: Vec<_> = file
            .functions
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.n_lines))
            .collect();
        assert_eq!(found, [("long", 4, 5), ("short", 10, 1)]);
    }

    #[test]
    fn tests_inside_a_file_do_not_count() {
        let file = parse("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n");
        assert_eq!((file.functions.len(), file.n_production_lines()), (1, 2));
    }

    #[test]
    fn a_file_taken_in_for_tests_is_known() {
        for (parent, text, child) in [
            ("a/src/lib.rs", "#[cfg(test)] mod testing;", "a/src/testing.rs"),
            (
                "a/src/b.rs",
                "#[cfg(test)] #[path = \"b_tests.rs\"] mod tests;",
                "a/src/b_tests.rs",
            ),
            (
                "a/src/b/mod.rs",
                "#[cfg(test)] mod world;",
                "a/src/b/world/mod.rs",
            ),
            (
                "a/src/b.rs",
                "#[cfg(any(test, feature = \"contract\"))] mod contract;",
                "a/src/b/contract/c.rs",
            ),
        ] {
            let parent = RustFile::parse(parent.to_owned(), text.to_owned()).unwrap();
            let child = RustFile::parse(child.to_owned(), String::new()).unwrap();
            assert!(
                child.belongs_to(&parent.test_modules[0]),
                "{} {:?}",
                child.path,
                parent.test_modules
            );
        }
        assert_eq!(
            parse("mod b; #[cfg(test)] mod c {} #[cfg(unix)] mod d;").test_modules,
            [""; 0]
        );
        let other = RustFile::parse("a/src/testings.rs".to_owned(), String::new()).unwrap();
        assert!(!other.belongs_to("a/src/testing"));
    }

    #[test]
    fn a_lint_is_switched_off_with_a_reason() {
        for (text, n_faults) in [
            ("#[allow(dead_code)] fn a() {}", 1),
            ("#![allow(dead_code)]", 1),
            ("#[expect(dead_code)] fn a() {}", 1),
            ("fn a() { #[allow(unused)] let b = 1; }", 1),
            ("#[cfg(test)] mod tests { #[allow(unused)] fn b() {} }", 1),
            ("#[cfg_attr(unix, allow(dead_code))] fn a() {}", 1),
            ("#[allow(dead_code, reason = \"told by serde\")] fn a() {}", 0),
            (
                "#[cfg_attr(unix, allow(dead_code, reason = \"used elsewhere\"))] fn a() {}",
                0,
            ),
            ("#[derive(Debug)] struct A; // allow(x)", 0),
        ] {
            assert_eq!(parse(text).unreasoned.len(), n_faults, "{text}");
        }
    }

    #[test]
    fn production_is_told_by_the_path() {
        for (path, expected) in [
            ("shard/src/run.rs", true),
            ("core/testkit/src/job.rs", true),
            ("core/jobs/src/tests.rs", false),
            ("core/jobs/src/retry/tests/backoff.rs", false),
            ("core/jobs/tests/all.rs", false),
            ("tests/src/net.rs", false),
        ] {
            let file = RustFile::parse(path.to_owned(), String::new()).unwrap();
            assert_eq!(file.is_production(), expected, "{path}");
        }
    }
}
