//! Plans as trace events for Perfetto and chrome://tracing: each plan is a process, and its lanes are the threads.

use super::{Course, PlannedOperation};
use crate::tile::Lane;
use serde_json::{Value, json};

/// The events of all courses, times in microseconds.
pub(super) fn json(planned: &PlannedOperation<'_>, courses: &[Course]) -> Value {
    let events: Vec<Value> = courses.iter().enumerate().flat_map(|(process, course)| events(process, course)).collect();
    let operation = planned.request.operation.name();
    json!({"displayTimeUnit": "ns", "otherData": {"op": operation}, "traceEvents": events})
}

fn events(process: usize, course: &Course) -> Vec<Value> {
    let mut events = vec![
        json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": course.name}}),
        json!({"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}),
    ];
    for (thread, lane) in [Lane::Compute, Lane::Communicate].into_iter().enumerate() {
        let name = lane.to_string();
        events.push(json!({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}));
        let mut first = 0;
        for (place, (rows, span)) in course.tiles.iter().zip(course.spans(lane)).enumerate() {
            events.push(json!({
                "ph": "X", "cat": name, "name": format!("tile {place}"), "pid": process, "tid": thread,
                "ts": span.start.as_micros(), "dur": span.length().as_micros(),
                "args": {"rows": rows.0, "first row": first},
            }));
            first += rows.0;
        }
    }
    events
}
