//! What all pages share.

use maud::{DOCTYPE, Markup, html};

/// A page without what all share.
pub(super) struct Page {
    pub(super) title: String,
    /// The command that shows the same.
    pub(super) command: Option<String>,
    /// What stays as it is: filters.
    pub(super) head: Markup,
    /// What is kept up to date.
    pub(super) live: Markup,
}

/// The whole page.
pub(super) fn whole(page: &Page, path: &str, version: &str) -> Markup {
    let section = path.split('/').next().unwrap_or_default();
    let link = |to: &str, name: &str| {
        let here = section == to || (section.is_empty() && to == "clusters");
        html! { a href={ "/" (to) } aria-current=[here.then_some("page")] { (name) } }
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.title) " - Echelon" }
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/live.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header {
                    strong { "Echelon" }
                    nav aria-label="Main" {
                        (link("clusters", "Clusters"))
                        (link("pools", "Pools"))
                        (link("jobs", "Jobs"))
                    }
                    span #connection role="status" { "not live" }
                }
                main #main {
                    h1 { (page.title) }
                    @if let Some(command) = &page.command {
                        p.soft { "Same on the command line: " code { (command) } }
                    }
                    (page.head)
                    div #live { (page.live) }
                }
                footer { "Echelon " (version) ". These pages only read." }
            }
        }
    }
}
