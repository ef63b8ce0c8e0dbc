//! The parameter files of DiskSim and its disk model: nested blocks of `name = value,` with lists and comments.

use std::collections::BTreeMap;

use super::ValidateError;

/// Files beyond this are not parameter files (the largest known has 30 kB).
pub(super) const MAX_BYTES: u64 = 16 << 20;
/// Blocks in blocks; known files have four levels.
const MAX_DEPTH: usize = 16;

/// A value with the line it stands on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub line: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Number(f64),
    Word(String),
    List(Vec<Value>),
    Block(Block),
}

/// `type name { key = value, … }`; in place of a value without a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub line: usize,
    pub kind: String,
    pub entries: BTreeMap<String, Value>,
}

/// Reads the file's first block.
pub(super) fn parse(file: &str, text: &str) -> Result<Block, ValidateError> {
    let mut parser = Parser { file, tokens: tokens(text), at: 0 };
    let line = parser.line();
    let kind = parser.words("a block such as 'disksim_disk NAME {'")?;
    parser.block(line, &kind, 0)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Text(&'a str),
    Mark(char),
}

/// Every token with its line. Words of a key ("Max queue length") are separate tokens.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let mut rest = code;
        while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
            rest = &rest[start..];
            let first = rest.chars().next().unwrap_or_default();
            let end = if "{}[]=,".contains(first) {
                tokens.push((number + 1, Token::Mark(first)));
                first.len_utf8()
            } else {
                let end = rest.find(|c: char| c.is_whitespace() || "{}[]=,".contains(c)).unwrap_or(rest.len());
                tokens.push((number + 1, Token::Text(&rest[..end])));
                end
            };
            rest = &rest[end..];
        }
    }
    tokens
}

struct Parser<'a> {
    file: &'a str,
    tokens: Vec<(usize, Token<'a>)>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.0)
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|token| token.1)
    }

    fn error(&self, expected: &str) -> ValidateError {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some(Token::Mark(mark)) => format!("'{mark}'"),
            Some(Token::Text(text)) => format!("'{}'", super::shorten(text)),
        };
        ValidateError::line(self.file, self.line(), format!("{found}: expected {expected}"))
    }

    fn mark(&mut self, mark: char, expected: &str) -> Result<(), ValidateError> {
        if self.peek() != Some(Token::Mark(mark)) {
            return Err(self.error(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn words(&mut self, expected: &str) -> Result<String, ValidateError> {
        let mut words = String::new();
        while let Some(Token::Text(text)) = self.peek() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(text);
            self.at += 1;
        }
        if words.is_empty() { Err(self.error(expected)) } else { Ok(words) }
    }

    fn block(&mut self, line: usize, kind: &str, depth: usize) -> Result<Block, ValidateError> {
        if depth > MAX_DEPTH {
            return Err(self.error("at most 16 blocks inside one another"));
        }
        self.mark('{', "'{' after the name of a block")?;
        let kind = kind.split(' ').next().unwrap_or_default().to_owned();
        let mut block = Block { line, kind, entries: BTreeMap::new() };
        loop {
            if self.peek() == Some(Token::Mark('}')) {
                self.at += 1;
                return Ok(block);
            }
            let line = self.line();
            let key = self.words("'key = value' or '}'")?;
            self.mark('=', "'=' after a key")?;
            let value = self.value(depth)?;
            if block.entries.insert(key.clone(), value).is_some() {
                let what = format!("'{}' is given twice: remove one", super::shorten(&key));
                return Err(ValidateError::line(self.file, line, what));
            }
            if self.peek() == Some(Token::Mark(',')) {
                self.at += 1;
            } else if self.peek() != Some(Token::Mark('}')) {
                return Err(self.error("',' or '}' after a value"));
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, ValidateError> {
        let line = self.line();
        if self.peek() == Some(Token::Mark('[')) {
            return self.list(line, depth);
        }
        let words = self.words("a value")?;
        let kind = if self.peek() == Some(Token::Mark('{')) {
            Kind::Block(self.block(line, &words, depth + 1)?)
        } else {
            match words.parse::<f64>() {
                Ok(number) if number.is_finite() => Kind::Number(number),
                _ => Kind::Word(words),
            }
        };
        Ok(Value { line, kind })
    }

    fn list(&mut self, line: usize, depth: usize) -> Result<Value, ValidateError> {
        if depth > MAX_DEPTH {
            return Err(self.error("at most 16 lists inside one another"));
        }
        self.mark('[', "'['")?;
        let mut items = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Mark(']')) => {
                    self.at += 1;
                    return Ok(Value { line, kind: Kind::List(items) });
                }
                Some(Token::Mark(',')) => self.at += 1,
                _ => items.push(self.value(depth + 1)?),
            }
        }
    }
}

impl Block {
    fn required(&self, file: &str, key: &str) -> Result<&Value, ValidateError> {
        self.entries.get(key).ok_or_else(|| {
            ValidateError::line(file, self.line, format!("this {} has no '{key}': add it", super::shorten(&self.kind)))
        })
    }

    /// A number from zero up to `most`.
    pub fn number(&self, file: &str, key: &str, most: f64) -> Result<f64, ValidateError> {
        let value = self.required(file, key)?;
        match value.kind {
            Kind::Number(number) if (0.0..=most).contains(&number) => Ok(number),
            _ => Err(ValidateError::line(file, value.line, format!("'{key}': expected a number from 0 to {most}"))),
        }
    }

    /// As [`Block::number`], without a fraction.
    pub fn whole(&self, file: &str, key: &str, most: u64) -> Result<u64, ValidateError> {
        let number = self.number(file, key, most as f64)?;
        if number.fract() != 0.0 {
            let line = self.entries.get(key).map_or(self.line, |value| value.line);
            return Err(ValidateError::line(file, line, format!("'{key}': expected a whole number, found {number}")));
        }
        Ok(number as u64)
    }

    /// Zero or one.
    pub fn flag(&self, file: &str, key: &str) -> Result<bool, ValidateError> {
        Ok(self.whole(file, key, 1)? == 1)
    }

    /// A block in the place of a value.
    pub fn inner(&self, file: &str, key: &str) -> Result<&Block, ValidateError> {
        let value = self.required(file, key)?;
        match &value.kind {
            Kind::Block(block) => Ok(block),
            _ => Err(ValidateError::line(file, value.line, format!("'{key}': expected a block in braces"))),
        }
    }

    /// A list.
    pub fn list(&self, file: &str, key: &str) -> Result<&[Value], ValidateError> {
        let value = self.required(file, key)?;
        match &value.kind {
            Kind::List(items) => Ok(items),
            _ => Err(ValidateError::line(file, value.line, format!("'{key}': expected a list in brackets"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lists_and_comments_read() {
        let text = "disk NAME {\n A b = 1, # one\n L = [ 1, 2 ],\n S = source x.model,\n I = inner { k = 2.5 }\n}";
        let block = parse("f", text).unwrap();
        assert_eq!(block.number("f", "A b", 10.0).unwrap(), 1.0);
        assert_eq!(block.list("f", "L").unwrap().len(), 2);
        assert_eq!(block.inner("f", "I").unwrap().number("f", "k", 10.0).unwrap(), 2.5);
        assert_eq!(block.kind, "disk");
    }

    #[test]
    fn errors_name_line_and_remedy() {
        for (text, message) in [
            ("disk {\n a = \n}", "f:3: '}': expected a value"),
            ("disk {\n a = 1\n b = 2\n}", "f:3: '=': expected ',' or '}' after a value"),
            ("disk {\n a = 1,\n a = 2\n}", "f:3: 'a' is given twice: remove one"),
            ("", "f:1: the end of the file: expected a block such as 'disksim_disk NAME {'"),
        ] {
            assert_eq!(parse("f", text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn a_tower_of_brackets_does_not_exhaust_the_stack() {
        let text = format!("d {{ a = {}", "[".repeat(1_000_000));
        assert!(parse("f", &text).is_err());
    }
}
