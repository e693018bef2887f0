//! Makes a finding small and prints it.

use windrow::Pool;

use crate::subject::Subject;
use crate::{Mode, cpu_seconds};

/// CPU time to make a finding smaller.
const SECONDS: f64 = 300.0;

/// Prints the smallest documents found for which `mode` gives other ids.
pub(crate) fn report(subject: &Subject, mode: &Mode, pools: &[Pool; 2], documents: &[String]) {
    println!("DIFFERENCE: {}, {mode:?}", subject.name);
    let end = cpu_seconds() + SECONDS;
    let differs = |documents: &[String]| {
        let expected: Option<Vec<Vec<u32>>> = documents.iter().map(|text| subject.expected(text)).collect();
        expected.is_some_and(|expected| !mode.agrees(subject, pools, documents, &expected))
    };
    let mut documents = documents.to_vec();
    if differs(&documents) {
        documents = smaller(documents, end, &differs);
        for at in 0..documents.len() {
            let others = documents.clone();
            let text: Vec<char> = documents[at].chars().collect();
            let text = smaller(text, end, &|text: &[char]| {
                let mut documents = others.clone();
                documents[at] = text.iter().collect();
                differs(&documents)
            });
            documents[at] = text.into_iter().collect();
        }
    } else {
        println!("the ids are equal the second time, so all documents of the batch follow");
    }
    let ids = mode.ids(subject, pools, &documents);
    for (text, ids) in documents.iter().zip(ids) {
        println!("text     {:?}", text.escape_unicode().to_string());
        println!("         {text:?}");
        println!("expected {:?}", subject.expected(text));
        println!("ids      {ids:?}");
    }
    if let Some(file) = &subject.file {
        println!("file     {file}");
    }
}

/// Removes items as long as the rest fails: first halves, then smaller parts.
fn smaller<T: Clone>(mut items: Vec<T>, end: f64, fails: &dyn Fn(&[T]) -> bool) -> Vec<T> {
    let mut size = items.len() / 2;
    while size > 0 {
        let mut at = 0;
        let before = items.len();
        while at < items.len() && cpu_seconds() < end {
            let mut fewer = items.clone();
            fewer.drain(at..(at + size).min(items.len()));
            if fails(&fewer) { items = fewer } else { at += size }
        }
        if items.len() == before || size > 1 {
            size /= 2;
        }
    }
    items
}
