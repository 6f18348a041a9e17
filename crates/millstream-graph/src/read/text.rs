//! Text cut into pieces of whole lines, which threads parse on their own, and the numbers in it.

use rayon::prelude::*;

use super::Fault;

/// The least bytes of text that one thread parses at a time. Small in tests, so that even small
/// texts are cut.
const PIECE: usize = if cfg!(test) { 48 } else { 1 << 20 };

/// A weight as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Weight {
    Integer(u32),
    Real(f32),
}

/// Which weights a format allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightRule {
    /// Every finite number. One that is written as an integer must fit 32 bits, unless it is negative.
    Any,
    /// Integers; negative ones are kept as reals.
    Integer,
    /// Every finite number. All are reals because the file says so, whatever they look like.
    Real,
}

/// Goes through text from beginning to end, and reports faults by their offset in the file.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the text begins in the file.
    start: usize,
}

/// Whether the byte is between two fields of a line.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b',')
}

impl<'a> Scanner<'a> {
    /// All of a file, without its byte order mark.
    pub(crate) fn new(file: &'a [u8]) -> Scanner<'a> {
        let start = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Scanner { text: &file[start..], at: 0, start }
    }

    /// Place in the file.
    pub(crate) fn offset(&self) -> usize {
        self.start + self.at
    }

    /// Number of bytes that are left.
    pub(crate) fn remaining(&self) -> usize {
        self.text.len() - self.at
    }

    /// A fault here.
    pub(crate) fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault::At { offset: self.offset(), reason: reason.into() }
    }

    /// Goes to the first field of the next line that is neither empty nor a
    /// comment; `false` if there is none.
    #[inline]
    pub(crate) fn next_content(&mut self, is_comment: impl Fn(u8) -> bool) -> bool {
        loop {
            self.skip_blanks();
            match self.text.get(self.at) {
                None => return false,
                Some(b'\n') => self.at += 1,
                Some(&byte) if is_comment(byte) => self.skip_line(),
                Some(_) => return true,
            }
        }
    }

    /// Goes to the first field of the next line that is no comment, empty or
    /// not; `false` if there is none.
    pub(crate) fn next_line(&mut self, is_comment: impl Fn(u8) -> bool) -> bool {
        while self.at < self.text.len() {
            self.skip_blanks();
            match self.text.get(self.at) {
                Some(&byte) if is_comment(byte) => self.skip_line(),
                _ => return true,
            }
        }
        false
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while self.text.get(self.at).is_some_and(|&byte| is_blank(byte)) {
            self.at += 1;
        }
    }

    /// Goes to the beginning of the next line.
    pub(crate) fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1);
    }

    /// Whether there is such a byte in the rest of the text.
    pub(crate) fn has(&self, byte: u8) -> bool {
        self.text[self.at..].contains(&byte)
    }

    /// The rest of the line.
    pub(crate) fn line(&self) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end])
    }

    /// Checks that no separator in this line lacks a field before it.
    pub(crate) fn check_fields(&self, separators: &[u8]) -> Result<(), Fault> {
        let begin = self.text[..self.at].iter().rposition(|&byte| byte == b'\n');
        let mut is_field = false;
        for (at, &byte) in self.text.iter().enumerate().skip(begin.map_or(0, |end| end + 1)) {
            match byte {
                b'\n' => break,
                _ if separators.contains(&byte) && !is_field => {
                    let offset = self.start + at;
                    return Err(Fault::At { offset, reason: "a field is empty".to_string() });
                }
                _ if separators.contains(&byte) => is_field = false,
                _ => is_field |= !is_blank(byte),
            }
        }
        Ok(())
    }

    /// Goes to the next field. Returns whether there is none in this line.
    #[inline]
    pub(crate) fn is_line_end(&mut self) -> bool {
        self.skip_blanks();
        self.text.get(self.at).is_none_or(|&byte| byte == b'\n')
    }

    /// Goes to the beginning of the next line; an error if this line has another field.
    #[inline]
    pub(crate) fn end_line(&mut self) -> Result<(), Fault> {
        if !self.is_line_end() {
            let field = show(self.clone().word());
            return Err(self.fault(format!("{field} is one field too many")));
        }
        self.at = (self.at + 1).min(self.text.len());
        Ok(())
    }

    /// The next field of the line, empty at the line's end.
    pub(crate) fn word(&mut self) -> &'a [u8] {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let is_end = |&byte: &u8| is_blank(byte) || byte == b'\n';
        let word = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// Digits, and their number if there are at most nineteen.
    #[inline]
    fn digits(&mut self) -> Option<u64> {
        let (begin, mut value) = (self.at, 0u64);
        while let Some(&byte) = self.text.get(self.at) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        let is_end = self.text.get(self.at).is_none_or(|&byte| is_blank(byte) || byte == b'\n');
        // Nineteen digits cannot overflow.
        (is_end && (1..=19).contains(&(self.at - begin))).then_some(value)
    }

    /// The next field, as a number.
    #[inline]
    pub(crate) fn number(&mut self, what: &str) -> Result<u64, Fault> {
        self.skip_blanks();
        let begin = self.at;
        match self.digits() {
            Some(number) => Ok(number),
            None => self.odd_number(begin, what),
        }
    }

    /// Handles a field that is not a number, or has very many digits.
    #[cold]
    fn odd_number(&mut self, begin: usize, what: &str) -> Result<u64, Fault> {
        self.at = begin;
        let mut ahead = self.clone();
        let word = ahead.word();
        if word.is_empty() {
            return Err(self.fault(format!("a {what} is missing")));
        }
        let is_digits = word.iter().all(u8::is_ascii_digit);
        let number = str::from_utf8(word).ok().filter(|_| is_digits).map(str::parse);
        match number {
            Some(Ok(number)) => {
                *self = ahead;
                Ok(number)
            }
            Some(Err(_)) => Err(self.fault(format!("{} does not fit 64 bits", show(word)))),
            None => Err(self.fault(format!("{} is not a {what}", show(word)))),
        }
    }

    /// A vertex id of a format that counts from 1 to `most`; the result counts from 0.
    #[inline]
    pub(crate) fn vertex(&mut self, most: u32) -> Result<u32, Fault> {
        self.skip_blanks();
        let begin = self.at;
        let id = self.number("vertex id")?;
        if id == 0 || id > u64::from(most) {
            self.at = begin;
            return Err(self.fault(format!("vertex id {id} is not in 1 to {most}")));
        }
        Ok((id - 1) as u32)
    }

    /// The next field, as a weight.
    #[inline]
    pub(crate) fn weight(&mut self, rule: WeightRule) -> Result<Weight, Fault> {
        self.skip_blanks();
        let begin = self.at;
        match self.digits().map(u32::try_from) {
            Some(Ok(weight)) => Ok(Weight::Integer(weight)),
            _ => self.odd_weight(begin, rule),
        }
    }

    /// Handles a weight that is not an integer of 32 bits.
    fn odd_weight(&mut self, begin: usize, rule: WeightRule) -> Result<Weight, Fault> {
        self.at = begin;
        let mut ahead = self.clone();
        let word = ahead.word();
        if word.is_empty() {
            return Err(self.fault("the weight is missing"));
        }
        let reason = match real(word, rule) {
            Ok(weight) => {
                *self = ahead;
                return Ok(weight);
            }
            Err(reason) => reason,
        };
        Err(self.fault(format!("{} {reason}", show(word))))
    }

    /// The rest of the text, cut at line ends.
    fn pieces(&self) -> Vec<Scanner<'a>> {
        let mut pieces = Vec::new();
        let mut begin = self.at;
        while begin < self.text.len() {
            let least = (begin + PIECE).min(self.text.len());
            let rest = &self.text[least..];
            let more = rest.iter().position(|&byte| byte == b'\n');
            let end = more.map_or(self.text.len(), |more| least + more + 1);
            let start = self.start + begin;
            pieces.push(Scanner { text: &self.text[begin..end], at: 0, start });
            begin = end;
        }
        pieces
    }

    /// Parses the rest of the text in pieces, in parallel. The fault is the first
    /// in the order of the file.
    pub(crate) fn parse_pieces<T: Send>(
        &self,
        parse: impl Fn(usize, Scanner<'a>) -> Result<T, Fault> + Sync,
    ) -> Result<Vec<T>, Fault> {
        let pieces = self.pieces().into_par_iter().enumerate();
        // Not collected into a `Result` directly: that would return any one of the faults.
        let parsed: Vec<_> = pieces.map(|(index, piece)| parse(index, piece)).collect();
        parsed.into_iter().collect()
    }
}

/// A weight that is not just a short row of digits.
fn real(word: &[u8], rule: WeightRule) -> Result<Weight, &'static str> {
    let text = str::from_utf8(word).map_err(|_| "is not a weight")?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_integer = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    if is_integer && !text.starts_with('-') {
        if let Ok(weight) = unsigned.parse() {
            return Ok(Weight::Integer(weight));
        }
        if rule != WeightRule::Real {
            return Err("does not fit 32 bits");
        }
    }
    let weight: f32 = text.parse().map_err(|_| "is not a weight")?;
    match weight.is_finite() {
        false if weight.is_nan() => Err("is not a number"),
        false => Err("is infinite, or larger than 32-bit reals are"),
        true if rule == WeightRule::Integer && !is_integer => Err("is not an integer weight"),
        true => Ok(Weight::Real(weight)),
    }
}

/// A field of the file as shown in a message: bytes that are not text are escaped, and long fields are cut.
pub(crate) fn show(word: &[u8]) -> String {
    const LONGEST: usize = 32;
    let (shown, rest) = word.split_at(word.len().min(LONGEST));
    format!("\"{}{}\"", shown.escape_ascii(), if rest.is_empty() { "" } else { "..." })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines_and_all_of_the_text() {
        let text = "12 34\n".repeat(100) + "7";
        let pieces = Scanner::new(text.as_bytes()).pieces();
        assert!(pieces.len() > 2);
        let mut whole = Vec::new();
        for piece in &pieces {
            assert_eq!(piece.start, whole.len());
            assert!(whole.is_empty() || whole.ends_with(b"\n"));
            whole.extend_from_slice(piece.text);
        }
        assert_eq!(whole, text.as_bytes());
    }

    #[test]
    fn numbers_are_exact_up_to_64_bits() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("007,", Ok(7)),
            ("9999999999999999999", Ok(9_999_999_999_999_999_999)),
            ("18446744073709551615\n", Ok(u64::MAX)),
            ("00000000000000000000000001", Ok(1)),
            ("18446744073709551616", Err("\"18446744073709551616\" does not fit 64 bits")),
            ("+1", Err("\"+1\" is not a thing")),
            ("1x", Err("\"1x\" is not a thing")),
            ("\u{7f}", Err("\"\\x7f\" is not a thing")),
            ("", Err("a thing is missing")),
        ] {
            let found = Scanner::new(text.as_bytes()).number("thing");
            assert_eq!(found.map_err(|fault| fault.reason()), expected.map_err(String::from));
        }
    }

    #[test]
    fn weights_are_integers_as_long_as_they_can() {
        use WeightRule::{Any, Integer, Real};
        for (text, rule, expected) in [
            ("4294967295", Any, Ok(Weight::Integer(u32::MAX))),
            ("+5", Integer, Ok(Weight::Integer(5))),
            ("4294967296", Any, Err("\"4294967296\" does not fit 32 bits")),
            ("99999999999999999999", Any, Err("\"99999999999999999999\" does not fit 32 bits")),
            ("+4294967296", Any, Err("\"+4294967296\" does not fit 32 bits")),
            ("4294967296", Real, Ok(Weight::Real(4_294_967_296.0))),
            ("4294967295", Real, Ok(Weight::Integer(u32::MAX))),
            ("4294967296.0", Any, Ok(Weight::Real(4_294_967_296.0))),
            ("4.3e9", Any, Ok(Weight::Real(4.3e9))),
            ("-4294967296", Any, Ok(Weight::Real(-4_294_967_296.0))),
            ("4294967296", Integer, Err("\"4294967296\" does not fit 32 bits")),
            ("1.0", Any, Ok(Weight::Real(1.0))),
            ("1e2", Any, Ok(Weight::Real(100.0))),
            ("-3", Integer, Ok(Weight::Real(-3.0))),
            ("1.5", Integer, Err("\"1.5\" is not an integer weight")),
            ("1e39", Any, Err("\"1e39\" is infinite, or larger than 32-bit reals are")),
            ("nan", Any, Err("\"nan\" is not a number")),
            ("-inf", Any, Err("\"-inf\" is infinite, or larger than 32-bit reals are")),
            ("x", Any, Err("\"x\" is not a weight")),
            ("-", Integer, Err("\"-\" is not a weight")),
            ("", Any, Err("the weight is missing")),
        ] {
            let found = Scanner::new(text.as_bytes()).weight(rule);
            assert_eq!(found.map_err(|fault| fault.reason()), expected.map_err(String::from));
        }
    }
}
