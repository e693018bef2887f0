//! Licence expressions: `MIT OR (Apache-2.0 WITH LLVM-exception AND ISC)`, and the old `MIT/Apache-2.0`.

/// Whether `expression` can be satisfied with licences for which `allowed` holds. A licence with an exception counts as one name,
/// `Apache-2.0 WITH LLVM-exception`.
///
/// # Errors
///
/// What is wrong with an invalid expression.
pub(crate) fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { tokens: spaced.split_whitespace().collect(), at: 0, allowed };
    let answer = parser.any()?;
    match parser.peek() {
        None => Ok(answer),
        Some(token) => Err(format!("unexpected `{token}` in the licence expression `{expression}`")),
    }
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut answer = self.all()?;
        while self.take("OR") {
            answer |= self.all()?;
        }
        Ok(answer)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Ok(answer)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let answer = self.any()?;
            return if self.take(")") { Ok(answer) } else { Err("a parenthesis is left open".to_owned()) };
        }
        let licence = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok((self.allowed)(&format!("{licence} WITH {exception}")));
        }
        Ok((self.allowed)(licence))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Some(token) if !["OR", "AND", "WITH", "(", ")"].contains(&token) => {
                self.at += 1;
                Ok(token)
            }
            other => Err(format!("a licence is missing before `{}`", other.unwrap_or("the end"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str) -> Result<bool, String> {
        satisfied(expression, &|name| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&name))
    }

    #[test]
    fn expressions_are_evaluated() {
        for yes in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
            "GPL-3.0 / ISC",
            "GPL-3.0 AND X OR MIT",
        ] {
            assert_eq!(check(yes), Ok(true), "{yes}");
        }
        for no in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "GPL-3.0 OR (MIT AND X)",
            "Apache-2.0",
            "MIT WITH LLVM-exception",
            "MIT AND (X OR Y)",
            "mit",
        ] {
            assert_eq!(check(no), Ok(false), "{no}");
        }
    }

    #[test]
    fn broken_expressions_are_errors() {
        for broken in ["", "MIT OR", "(MIT", "MIT)", "MIT ISC", "AND MIT", "MIT WITH"] {
            assert!(check(broken).is_err(), "{broken}");
        }
    }
}
