//! Cuts a Rust source into words: comments vanish, a string or character never looks like code.

/// A word, a string (with its opening quote, so that it equals no word), `::`, or one other character.
pub(crate) struct Token {
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
}

pub(crate) fn tokens_of(text: &str) -> Vec<Token> {
    Lexer {
        chars: text.chars().collect(),
        at: 0,
        line: 1,
    }
    .tokens()
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Lexer {
    fn tokens(mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        while let Some(c) = self.peek(0) {
            let line = self.line;
            let text = match (c, self.peek(1)) {
                ('/', Some('/')) => self.skip_while(|c| c != '\n'),
                ('/', Some('*')) => self.skip_block_comment(),
                ('"', _) => self.string(0, true),
                ('\'', _) => self.quote(),
                (':', Some(':')) => self.take(2),
                (c, _) if c.is_alphanumeric() || c == '_' => self.word(),
                (c, _) if c.is_whitespace() => self.skip_while(char::is_whitespace),
                _ => self.take(1),
            };
            if !text.is_empty() {
                tokens.push(Token { text, line });
            }
        }
        tokens
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn take(&mut self, count: usize) -> String {
        let end = (self.at + count).min(self.chars.len());
        let taken = &self.chars[self.at..end];
        self.line += taken.iter().filter(|&&c| c == '\n').count();
        self.at = end;
        taken.iter().collect()
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let count = self.chars[self.at..]
            .iter()
            .take_while(|&&c| wanted(c))
            .count();
        self.take(count);
        String::new()
    }

    fn skip_block_comment(&mut self) -> String {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return String::new(),
                _ => {
                    self.take(1);
                    continue;
                }
            }
            self.take(2);
            if depth == 0 {
                return String::new();
            }
        }
    }

    /// A word, or the string that it is the prefix of.
    fn word(&mut self) -> String {
        let count = self.chars[self.at..]
            .iter()
            .take_while(|&&c| c.is_alphanumeric() || c == '_')
            .count();
        let word = self.take(count);
        let hashes = self.chars[self.at..]
            .iter()
            .take_while(|&&c| c == '#')
            .count();
        let quoted = self.peek(hashes) == Some('"');
        match word.as_str() {
            "r" | "br" | "cr" if quoted => self.string(hashes, false),
            "b" | "c" if quoted && hashes == 0 => self.string(0, true),
            _ => word,
        }
    }

    /// A string that opens after `hashes` number signs; where `escapes`, a backslash takes the next character with it.
    fn string(&mut self, hashes: usize, escapes: bool) -> String {
        self.take(hashes + 1);
        let mut text = String::from("\"");
        while let Some(c) = self.peek(0) {
            let closes = (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if c == '"' && closes {
                self.take(hashes + 1);
                break;
            }
            text += &self.take(if escapes && c == '\\' { 2 } else { 1 });
        }
        text
    }

    /// A character between quotes is dropped; the quote of a lifetime is dropped and its name kept.
    fn quote(&mut self) -> String {
        if self.peek(1) == Some('\\') {
            self.take(3);
            self.skip_while(|c| c != '\'');
            self.take(1);
        } else if self.peek(2) == Some('\'') {
            self.take(3);
        } else {
            self.take(1);
        }
        String::new()
    }
}
