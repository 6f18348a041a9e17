//! Inline PTX and kernels' definitions, rewritten as C++.

/// Bytes of its own memory that a block may have besides what its kernel declares; few, so
/// that small cases fill it.
pub(crate) const SHARED_BYTES: u32 = 4096;

/// Preprocessed CUDA C++, as C++ for the host, and the names of its kernels.
pub(crate) fn translate(source: &str) -> (String, Vec<String>) {
    register_kernels(&alignment_first(&sized(&without_assembly(source))))
}

/// `extern __shared__` arrays get a size.
fn sized(source: &str) -> String {
    const EXTERN: &str = "extern ";
    let (mut output, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(at) = rest.find("extern static thread_local ") {
        output.push_str(&rest[..at]);
        rest = &rest[at + EXTERN.len()..];
        let declaration = rest.split_once("[]").filter(|(before, _)| !before.contains(';'));
        let Some((declared, after)) = declaration else { continue };
        let item = declared.split(' ').nth(2).unwrap_or_default();
        output.push_str(&format!("{declared}[{SHARED_BYTES} / sizeof({item})]"));
        rest = after;
    }
    output.push_str(rest);
    output
}

/// An alignment after `__shared__`, which g++ does not take, goes before it.
fn alignment_first(source: &str) -> String {
    const SHARED: &str = "static thread_local";
    let (mut output, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(at) = rest.find(SHARED) {
        let (before, after) = rest.split_at(at);
        output.push_str(before);
        rest = &after[SHARED.len()..];
        let open = rest.trim_start().starts_with("alignas").then(|| rest.find('(')).flatten();
        if let Some(close) = open.and_then(|open| Some(open + closing(&rest[open..])?)) {
            output.push_str(rest[..=close].trim_start());
            output.push(' ');
            rest = &rest[close + 1..];
        }
        output.push_str(SHARED);
    }
    output.push_str(rest);
    output
}

/// Each `__global__ void name(...)` becomes a declaration, its registration and the
/// definition's beginning.
fn register_kernels(source: &str) -> (String, Vec<String>) {
    let mut kernels = Vec::new();
    let mut output = String::with_capacity(source.len() + 1024);
    let mut rest = source;
    while let Some(at) = rest.find("__global__") {
        let (before, after) = rest.split_at(at);
        let after = &after["__global__".len()..];
        output.push_str(before);
        let declared = after.trim_start().strip_prefix("void").and_then(|text| {
            let open = text.find('(')?;
            let close = open + closing(&text[open..])?;
            Some((text[..open].trim(), &text[open..=close], &text[close + 1..]))
        });
        let Some((name, parameters, following)) = declared else {
            rest = after;
            continue;
        };
        output.push_str(&format!("void {name}{parameters}"));
        if following.trim_start().starts_with('{') {
            kernels.push(name.to_string());
            // On one line: the lines after keep their numbers.
            let joined = parameters.split_whitespace().collect::<Vec<_>>().join(" ");
            output.push_str(&format!(
                "; static const ::emulated::Registration emulated_{name}{{\
                 ::emulated::Entry<static_cast<void (*){joined}>(&{name})>::kernel(\"{name}\")}}; \
                 extern \"C\" void {name}{joined}"
            ));
        }
        rest = following;
    }
    output.push_str(rest);
    (output, kernels)
}

/// The place of the bracket that closes the one at the beginning.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            '"' => {
                while let Some((_, inside)) = characters.next() {
                    match inside {
                        '\\' => drop(characters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn without_assembly(source: &str) -> String {
    let mut output = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = find_word(rest, "asm") {
        let (before, after) = rest.split_at(at);
        output.push_str(before);
        let after = after["asm".len()..].trim_start();
        let after = after.strip_prefix("volatile").unwrap_or(after).trim_start();
        let Some(close) = after.starts_with('(').then(|| closing(after)).flatten() else {
            output.push_str("asm ");
            rest = after;
            continue;
        };
        output.push_str(&statement(&after[1..close]));
        rest = &after[close + 1..];
    }
    output.push_str(rest);
    output
}

fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'"';
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = at.checked_sub(1).map(|before| text.as_bytes()[before]);
        let after = text.as_bytes().get(at + word.len()).copied();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// What stands in the brackets of an `asm`, as an expression.
fn statement(inside: &str) -> String {
    let sections = split(inside, ':');
    let text = sections.first().map(|text| literals(text)).unwrap_or_default();
    let operands: Vec<&str> = sections
        .iter()
        .skip(1)
        .take(2)
        .flat_map(|section| {
            split(section, ',').into_iter().filter_map(|operand| {
                let open = operand.find('(')?;
                Some(&operand[open..=open + closing(&operand[open..])?])
            })
        })
        .collect();
    let text = text.replace("%%", "%").split_whitespace().collect::<Vec<_>>().join(" ");
    expression(&text, &operands)
        .unwrap_or_else(|| format!("static_assert(sizeof(int) == 0, \"not emulated: {text}\")"))
}

/// Splits at a separator that is in no brackets or strings.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(character) = text[at..].chars().next() {
        let step = match character {
            '(' | '[' | '{' => closing(&text[at..]).map_or(1, |close| close + 1),
            '"' => 1 + text[at + 1..].find('"').map_or(0, |close| close + 1),
            // Not the `::` of a name.
            ':' if separator == ':' && text[at..].starts_with("::") => {
                let is_empty =
                    text[start..at].trim().is_empty() || text[..at].trim_end().ends_with('"');
                if is_empty { 0 } else { 2 }
            }
            _ if character == separator => 0,
            _ => character.len_utf8(),
        };
        if step == 0 {
            parts.push(&text[start..at]);
            at += 1;
            start = at;
        } else {
            at += step;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The string literals one after the other.
fn literals(text: &str) -> String {
    text.split('"').skip(1).step_by(2).collect::<String>().replace("\\n", " ").replace("\\t", " ")
}

fn expression(text: &str, operands: &[&str]) -> Option<String> {
    let operand = |place: usize| operands.get(place).copied();
    let address = |place: usize| {
        let operand = operand(place)?;
        let is_global = text.contains(".global");
        Some(if is_global { format!("::emulated::global({operand})") } else { operand.to_string() })
    };
    // Says only that its operands may have changed.
    if text.is_empty() {
        return Some("(void)0".to_string());
    }
    let words: Vec<&str> =
        text.trim_end_matches(';').split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let parts: Vec<&str> =
        words.first()?.split('.').filter(|part| !["global", "shared"].contains(part)).collect();
    let order = |name: &str| match name {
        "acquire" => "::emulated::acquire",
        "release" => "::emulated::release",
        _ => "::emulated::relaxed",
    };
    let word = |name: &str| match name {
        "u32" | "b32" => Some("unsigned"),
        "u64" | "b64" => Some("unsigned long long"),
        "s32" => Some("int"),
        "f32" => Some("float"),
        _ => None,
    };
    Some(match (parts.as_slice(), &words[1..]) {
        (["ld", ordered, _, bits], ["%0", "[%1]"]) => format!(
            "({} = ::emulated::load<{}>({}, {}))",
            operand(0)?,
            word(bits)?,
            address(1)?,
            order(ordered)
        ),
        (["st", ordered, _, bits], ["[%0]", "%1"]) => format!(
            "::emulated::store<{}>({}, {}, {})",
            word(bits)?,
            address(0)?,
            operand(1)?,
            order(ordered)
        ),
        (["ld", "relaxed", _, "v4", "u32"], ["{%0", "%1", "%2", "%3}", "[%4]"]) => format!(
            "::emulated::load_quad({}, {}, {}, {}, {})",
            address(4)?,
            operand(0)?,
            operand(1)?,
            operand(2)?,
            operand(3)?
        ),
        (["st", "relaxed", _, "v4", "u32"], ["[%0]", "{%1", "%2", "%3", "%4}"]) => format!(
            "::emulated::store_quad({}, {}, {}, {}, {})",
            address(0)?,
            operand(1)?,
            operand(2)?,
            operand(3)?,
            operand(4)?
        ),
        (["atom", _, _, "cas", bits], ["%0", "[%1]", "%2", "%3"]) => format!(
            "({} = ::emulated::fetch_cas<{}>({}, {}, {}))",
            operand(0)?,
            word(bits)?,
            address(1)?,
            operand(2)?,
            operand(3)?
        ),
        (["atom", _, _, operation, bits], ["%0", "[%1]", "%2"]) => format!(
            "({} = ::emulated::fetch_{operation}<{}>({}, {}))",
            operand(0)?,
            word(bits)?,
            address(1)?,
            operand(2)?
        ),
        (["red", _, _, operation, bits], ["[%0]", "%1"]) => format!(
            "(void)::emulated::fetch_{operation}<{}>({}, {})",
            word(bits)?,
            address(0)?,
            operand(1)?
        ),
        (["fence", ..], []) => "::emulated::fence()".to_string(),
        (["prefetch", ..], [_]) => "(void)0".to_string(),
        (["bar", "sync"], [barrier, "%0"]) => {
            format!("::emulated::barrier({barrier}, {}, 0)", operand(0)?)
        }
        (["mov", _], ["%0", "%globaltimer"]) => format!("({} = ::emulated::time())", operand(0)?),
        (["mov", _], ["%0", "%dynamic_smem_size"]) => {
            format!("({} = {SHARED_BYTES}u)", operand(0)?)
        }
        (["mov", _], ["%0", "%nsmid"]) => {
            format!("({} = ::emulated::hooks->multiprocessors())", operand(0)?)
        }
        (["cvt", to @ .., from], ["%0", "%1"]) => {
            let conversion = match (to, *from) {
                (["f32"], "f16") => "float_of_half",
                (["rn", "f16"], "f32") => "half_of_float",
                (["rn", "bf16"], "f32") => "brain_float_of_float",
                _ => return None,
            };
            format!("({} = ::emulated::{conversion}({}))", operand(0)?, operand(1)?)
        }
        (["trap"], []) => "__trap()".to_string(),
        // Ordered whatever they say.
        (["{"], _) if text.contains(".sys.global.b128 [%0], line") => {
            format!("::emulated::store_words({}, {}, {})", address(0)?, operand(1)?, operand(2)?)
        }
        (["{"], _) if text.contains(".sys.global.b128 line, [%2]") => {
            format!("::emulated::load_words({}, &{}, &{})", address(2)?, operand(0)?, operand(1)?)
        }
        (["{"], _) if text.contains("@asked ld.relaxed.sys.global.b128 line, [%3]") => format!(
            "({} ? ::emulated::load_words({}, &{}, &{}) : (void)0)",
            operand(2)?,
            address(3)?,
            operand(0)?,
            operand(1)?
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_becomes_calls() {
        let one = |text: &str| without_assembly(text);
        assert_eq!(
            one(
                r#"asm volatile("{ .reg .pred asked; setp.ne.u32 asked, %2, 0; mov.b128 line, {%0, %1}; @asked ld.relaxed.sys.global.b128 line, [%3]; mov.b128 {%0, %1}, line; }" : "+l"(*word), "+l"(*tag) : "r"(is_asked), "l"(line) : "memory");"#
            ),
            "((is_asked) ? ::emulated::load_words(::emulated::global((line)), &(*word), &(*tag)) : (void)0);"
        );
        assert_eq!(
            one(
                r#"asm volatile("ld." "acquire" "." "sys" "." "u64" " %0, [%1];" : "=" "l"(value) : "l"(a + (b)) : "memory");"#
            ),
            "((value) = ::emulated::load<unsigned long long>((a + (b)), ::emulated::acquire));"
        );
        assert_eq!(
            one(r#"asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(a), "r"(b) : "memory");"#),
            "::emulated::store<unsigned>((a), (b), ::emulated::release);"
        );
        assert_eq!(
            one(
                r#"asm volatile("atom.acq_rel.gpu.cas.b32 %0, [%1], %2, %3;" : "=r"(v) : "l"(a), "r"(e), "r"(d));"#
            ),
            "((v) = ::emulated::fetch_cas<unsigned>((a), (e), (d)));"
        );
        assert_eq!(
            one(
                r#"asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(e));"#
            ),
            "::emulated::load_quad((e), (a), (b), (c), (d));"
        );
        assert_eq!(
            one(
                r#"asm volatile("st.relaxed.gpu.v4.u32 [%0], {%1, %2, %3, %4};" : : "l"(e), "r"(a), "r"(b), "r"(c), "r"(d));"#
            ),
            "::emulated::store_quad((e), (a), (b), (c), (d));"
        );
        assert_eq!(
            one(r#"asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(v) : "l"(a));"#),
            "((v) = ::emulated::load<unsigned>((a), ::emulated::relaxed));"
        );
        assert_eq!(
            one(r#"asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));"#),
            "((bytes) = 4096u);"
        );
        assert_eq!(
            one(r#"asm volatile("bar.sync 1, %0;" : : "n"(x::y) : "memory");"#),
            "::emulated::barrier(1, (x::y), 0);"
        );
        assert_eq!(
            one(r#"asm("mov.u64 %0, %%globaltimer;" : "=l"(now));"#),
            "((now) = ::emulated::time());"
        );
        assert_eq!(
            one(r#"asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(number));"#),
            "((half.bits) = ::emulated::half_of_float((number)));"
        );
        assert_eq!(one(r#"asm volatile("" : "+r"(item));"#), "(void)0;");
        assert!(one(r#"asm("frob %0;" : "=l"(now));"#).contains("not emulated: frob"));
        assert_eq!(one("int plasma = 1, asm_ = 2;"), "int plasma = 1, asm_ = 2;");
    }

    #[test]
    fn own_memory_gets_a_size() {
        let source = "{ extern static thread_local u4 x[]; extern static thread_local u4 y; }";
        let expected = "{ static thread_local u4 x[4096 / sizeof(u4)]; static thread_local u4 y; }";
        assert_eq!(sized(source), expected);
    }

    #[test]
    fn alignments_go_first() {
        let source = "static thread_local alignas(f(16)) int x[2];\nstatic thread_local int y;";
        let expected = "alignas(f(16)) static thread_local int x[2];\nstatic thread_local int y;";
        assert_eq!(alignment_first(source), expected);
    }

    #[test]
    fn kernels_are_registered_where_they_are_defined() {
        let source = "extern \"C\" __global__ void  keep(int a,\n  int (*b)(int)) { body(); }";
        let (translated, kernels) = register_kernels(source);
        assert_eq!(kernels, ["keep"]);
        assert!(translated.starts_with("extern \"C\" void keep(int a,\n  int (*b)(int)); static"));
        assert!(translated.contains(">(&keep)>::kernel(\"keep\")"));
        assert!(translated.ends_with("extern \"C\" void keep(int a, int (*b)(int)) { body(); }"));
        assert_eq!(translated.lines().count(), 2);
    }
}
