//! Breaks messages down \[G §4.2, Fig. 8\]: into equal parts here, and into
//! packets where they are claimed ([`Offer`](crate::multiplexer::Offer)).

use std::ops::Range;

/// `count` consecutive parts of `items`, as equal as can be, larger ones first.
pub(crate) fn parts(items: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    let (share, larger) = (items / count.max(1), items % count.max(1));
    (0..count).map(move |part| {
        let start = part * share + part.min(larger);
        start..start + share + usize::from(part < larger)
    })
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_cover_everything_once() {
        for items in 0..40 {
            for count in 1..9 {
                let parts: Vec<_> = parts(items, count).collect();
                assert_eq!(parts.len(), count);
                assert_eq!(parts[0].start, 0);
                assert_eq!(parts[count - 1].end, items);
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                let lens = parts.iter().map(ExactSizeIterator::len);
                let (least, most) = (lens.clone().min().unwrap(), lens.max().unwrap());
                assert!(most - least <= 1);
            }
        }
    }
}
