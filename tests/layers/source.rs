//! A Rust source as a list of words, just enough to see which paths it names: no comments, strings kept apart, tests marked.

use std::ops::{Range, RangeInclusive};

use crate::lexer::{Token, tokens_of};

/// A path as it is named, resolved to the crate's root: `super::io::File` in `segment` is `io`, `File`.
pub(crate) struct Path {
    pub(crate) parts: Vec<String>,
    /// Under which name it is known here: its last part, or what `as` says.
    pub(crate) name: String,
    pub(crate) line: usize,
}

pub(crate) struct Source {
    tokens: Vec<Token>,
}

/// What begins an item, as against a field, a variant or an arm, which a comma ends.
const ITEMS: [&str; 9] = [
    "const",
    "enum",
    "fn",
    "impl",
    "mod",
    "struct",
    "trait",
    "type",
    "macro_rules",
];

/// Is an attribute of these words such that its item is compiled for tests alone?
pub(crate) fn gated_by_test(attribute: &[&str]) -> bool {
    attribute.first() == Some(&"cfg")
        && attribute.contains(&"test")
        && !attribute.iter().any(|word| ["not", "any"].contains(word))
}

/// …or with the feature `testing` alone?
pub(crate) fn gated_by_testing(attribute: &[&str]) -> bool {
    attribute.first() == Some(&"cfg")
        && attribute.contains(&"\"testing")
        && !attribute.contains(&"not")
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        Source {
            tokens: tokens_of(text),
        }
    }

    /// The lines on which these words stand in a row.
    pub(crate) fn find<'s>(&'s self, words: &'s [&str]) -> impl Iterator<Item = usize> + 's {
        let matches = move |window: &&[Token]| {
            window
                .iter()
                .zip(words)
                .all(|(token, word)| token.text == *word)
        };
        self.tokens
            .windows(words.len())
            .filter(matches)
            .map(|window| window[0].line)
    }

    /// Every path from `crate`, `super` or `self` in this file, which is `module`, outside of what `gate` closes.
    pub(crate) fn paths(&self, module: &[String], gate: fn(&[&str]) -> bool) -> Vec<Path> {
        let closed = self.items(gate);
        let mut inner = Vec::new(); // modules written within this file, each with the depth of its braces
        let (mut depth, mut found) = (0, Vec::new());
        for at in 0..self.tokens.len() {
            match self.word(at) {
                "{" => {
                    if at >= 2 && self.word(at - 2) == "mod" {
                        inner.push((self.word(at - 1).to_owned(), depth));
                    }
                    depth += 1;
                }
                "}" => {
                    depth -= 1;
                    inner.retain(|(_, opened)| *opened < depth);
                }
                "crate" | "super" | "self"
                    if self.begins_path(at) && !closed.iter().any(|item| item.contains(&at)) =>
                {
                    let here = module
                        .iter()
                        .chain(inner.iter().map(|(name, _)| name))
                        .cloned()
                        .collect();
                    self.path(at, here, &mut found);
                }
                _ => {}
            }
        }
        found
    }

    /// What the root re-exports: `pub use log::{Log, Topic};`.
    pub(crate) fn public_uses(&self) -> Vec<Path> {
        let mut found = Vec::new();
        for at in 1..self.tokens.len() {
            if self.word(at - 1) == "pub" && self.word(at) == "use" {
                self.path(at + 1, Vec::new(), &mut found);
            }
        }
        found
    }

    /// The modules that are declared here for tests, in files of their own.
    pub(crate) fn test_modules(&self, module: &[String]) -> Vec<Vec<String>> {
        let names = self.items(gated_by_test).into_iter().filter_map(|item| {
            let at = item.end.checked_sub(3)?;
            (self.word(at) == "mod" && self.word(at + 2) == ";")
                .then(|| self.word(at + 1).to_owned())
        });
        names
            .map(|name| module.iter().cloned().chain([name]).collect())
            .collect()
    }

    /// The lines of every item whose attribute `gate` accepts.
    pub(crate) fn lines_of(&self, gate: fn(&[&str]) -> bool) -> Vec<RangeInclusive<usize>> {
        let lines =
            |item: Range<usize>| self.tokens[item.start].line..=self.tokens[item.end - 1].line;
        self.items(gate).into_iter().map(lines).collect()
    }

    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    fn begins_path(&self, at: usize) -> bool {
        self.word(at + 1) == "::"
            && (at == 0 || self.word(at - 1) != "::")
            && !self.inside_use_braces(at)
    }

    /// `self` in `use crate::log::{self, x}` begins nothing, and `{self::..}` is taken with the path around it.
    fn inside_use_braces(&self, at: usize) -> bool {
        let before = (0..at)
            .rev()
            .map(|at| self.word(at))
            .take_while(|word| ![";", "}", "("].contains(word));
        let words: Vec<&str> = before.collect();
        words.contains(&"use")
            && words.contains(&"{")
            && words.windows(2).any(|pair| pair == ["{", "::"])
    }

    /// Reads the path or tree of paths at `at` and returns where it ends.
    fn path(&self, mut at: usize, mut parts: Vec<String>, found: &mut Vec<Path>) -> usize {
        loop {
            match self.word(at) {
                "crate" => parts.clear(),
                "super" => drop(parts.pop()),
                "self" => {}
                "{" => return self.tree(at + 1, &parts, found),
                word => parts.push(word.to_owned()),
            }
            if self.word(at + 1) != "::" || self.word(at + 2) == "<" {
                break;
            }
            at += 2;
        }
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        let renamed = self.word(at + 1) == "as";
        let name = if renamed {
            self.word(at + 2).to_owned()
        } else {
            parts.last().cloned().unwrap_or_default()
        };
        found.push(Path { parts, name, line });
        if renamed { at + 3 } else { at + 1 }
    }

    fn tree(&self, mut at: usize, parts: &[String], found: &mut Vec<Path>) -> usize {
        while at < self.tokens.len() {
            match self.word(at) {
                "}" => return at + 1,
                "," => at += 1,
                _ => at = self.path(at, parts.to_vec(), found),
            }
        }
        at
    }

    /// The items, attributes included, that have an attribute which `gate` accepts.
    fn items(&self, gate: fn(&[&str]) -> bool) -> Vec<Range<usize>> {
        let (mut items, mut at) = (Vec::new(), 0);
        while at < self.tokens.len() {
            let end = self.attribute_end(at);
            let words: Vec<&str> = (at + 2..end.saturating_sub(1))
                .map(|at| self.word(at))
                .collect();
            if end > at && gate(&words) {
                let item = at..self.item_end(end);
                at = item.end;
                items.push(item);
            } else {
                at = end.max(at + 1);
            }
        }
        items
    }

    /// Behind the attribute that begins at `at`; `at` itself if there is none.
    fn attribute_end(&self, at: usize) -> usize {
        if self.word(at) != "#" || self.word(at + 1) != "[" {
            return at;
        }
        let mut depth = 0;
        for end in at + 1..self.tokens.len() {
            match self.word(end) {
                "[" => depth += 1,
                "]" if depth == 1 => return end + 1,
                "]" => depth -= 1,
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// Behind the item (or field, or variant) that begins at `at`, perhaps with more attributes.
    fn item_end(&self, mut at: usize) -> usize {
        while self.attribute_end(at) > at {
            at = self.attribute_end(at);
        }
        while ["pub", "async", "unsafe", "extern"].contains(&self.word(at)) {
            at = if self.word(at + 1) == "(" {
                at + 4
            } else {
                at + 1
            };
        }
        let needs_semicolon = ["use", "let", "static"].contains(&self.word(at))
            || (self.word(at) == "const" && self.word(at + 1) != "fn");
        let is_item = needs_semicolon || ITEMS.contains(&self.word(at));
        let mut depth = 0;
        for end in at..self.tokens.len() {
            match self.word(end) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" if depth == 0 => return end,
                "}" if depth == 1 && !needs_semicolon => return end + 1,
                "}" | ")" | "]" => depth -= 1,
                ";" if depth == 0 => return end + 1,
                "," if depth == 0 && !is_item => return end + 1,
                _ => {}
            }
        }
        self.tokens.len()
    }
}
