//! Tiles of many numbers of rows, as a table that a kernel can include: ranges of m, and the parameters of two-size tiles.
//!
//! A row holds for all m of its range: they use the tiles of the last m, and the last tile ends at m. The table has the rows that were asked
//! for; neighbours are joined if the tiles of the larger m, ended at the smaller, are those of the smaller. `tiles_for` reads a table back, as a
//! kernel does.

use std::fmt::Write as _;

use crate::tile::Tiles;

use super::choice::Choice;
use super::request::PlanRequest;
use super::samples::{MeasuredTimes, quoted};
use super::spans::Spans;
use super::{Unplanned, impossible, with_problem};

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    from: u64,
    to: u64,
    /// tileM, tileNum, tailM, tailNum.
    parameters: [u64; 4],
}

/// A table of these numbers of rows: a header of C, or CSV.
pub(super) fn text(
    options: &PlanRequest,
    measured: &MeasuredTimes,
    spans: &Spans,
    as_header: bool,
) -> Result<String, Unplanned> {
    let mut plans = Vec::new();
    for m in spans.rows(options.aligned())? {
        let options = PlanRequest { m, ..options.clone() };
        options.check()?;
        let fits = measured.fit(&options)?;
        let margin = measured.margin(&fits, m);
        let choice =
            with_problem(&options, measured, &fits, |problem| Choice::new(problem, measured, margin, options.family));
        plans.push((m, choice.map_err(|error| impossible(measured, error))?.plan.tiles));
    }
    let rows = joined(&plans);
    Ok(if as_header { header(options, &rows) } else { csv(&rows) })
}

/// The rows of a table, from plans by ascending number of rows.
fn joined(plans: &[(u64, Tiles)]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (place, (m, tiles)) in plans.iter().enumerate() {
        let parameters = parameters(tiles);
        let before = place.checked_sub(1).map(|place| &plans[place]);
        let joins = before.is_some_and(|(m, before)| ended(tiles, *m).eq(before.iter().map(|tile| tile.0)));
        match rows.last_mut() {
            Some(last) if joins => (last.to, last.parameters) = (*m, parameters),
            _ => rows.push(Row { from: before.map_or(*m, |(m, _)| m + 1), to: *m, parameters }),
        }
    }
    rows
}

/// The tiles of the first `m` rows.
fn ended(tiles: &Tiles, m: u64) -> impl Iterator<Item = u64> + '_ {
    let mut left = m;
    tiles.iter().map_while(move |tile| {
        let rows = tile.0.min(left);
        left -= rows;
        (rows > 0).then_some(rows)
    })
}

/// Two-size tiles as a kernel takes them: size and number of the first tiles, and of the others.
fn parameters(tiles: &Tiles) -> [u64; 4] {
    let first = tiles.iter().next().map_or(0, |tile| tile.0);
    let (same, last) = (tiles.iter().take_while(|tile| tile.0 == first).count(), tiles.iter().next_back());
    match (tiles.len() - same, last) {
        (others @ 1.., Some(last)) => [first, same as u64, last.0, others as u64],
        _ => [first, same as u64, 0, 0],
    }
}

/// The columns of a table.
const COLUMNS: &str = "m_from,m_to,tileM,tileNum,tailM,tailNum";

/// The array of a C header.
const ARRAY: &str = "windrow_tiles[]";

/// Maximum number of tiles of a row that is read.
const MOST_TILES: u64 = 1 << 20;

/// Whether a text is a table.
pub(super) fn is_table(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(COLUMNS) || (text.starts_with("/*") && text.contains(ARRAY))
}

/// The tiles that a table has for `m` rows. An error has the line, if it is about one.
pub(super) fn tiles_for(text: &str, m: u64) -> Result<Vec<u64>, (Option<usize>, String)> {
    let mut lines = text.lines().enumerate().map(|(place, line)| (place + 1, line.trim()));
    // The head of a table ends with the columns, that of a header with the array's name.
    let headed = lines.any(|(_, line)| line == COLUMNS || line.contains(ARRAY));
    if !headed {
        return Err((None, format!("the table lacks the header line {COLUMNS}")));
    }
    let (mut least, mut most) = (u64::MAX, 0);
    for (number, line) in lines {
        let line = line.trim_start_matches('{').trim_end_matches(['}', ',', ';']);
        if line.is_empty() {
            continue;
        }
        let fields: Option<Vec<u64>> = line.split(',').map(|field| field.trim().parse().ok()).collect();
        let Some([from, to, parameters @ ..]) = fields.as_deref().and_then(|fields| <&[u64; 6]>::try_from(fields).ok())
        else {
            let shown = quoted(line);
            return Err((
                Some(number),
                format!("{shown} is not a row of a table\nhint: a row consists of six numbers: {COLUMNS}"),
            ));
        };
        (least, most) = (least.min(*from), most.max(*to));
        if !(from..=to).contains(&&m) {
            continue;
        }
        let [tile, tiles, tail, tails] = *parameters;
        let (mut left, mut cut) = (m, Vec::new());
        for (rows, times) in [(tile, tiles), (tail, tails)] {
            // Tiles without rows, of which there may be any number, cover nothing.
            let times = if rows > 0 { times.min(left.div_ceil(rows)) } else { 0 };
            if times > MOST_TILES {
                return Err((Some(number), format!("this table entry has more than {MOST_TILES} tiles for {m} rows")));
            }
            for _ in 0..times {
                cut.push(rows.min(left));
                left -= rows.min(left);
            }
        }
        if left > 0 {
            let why = format!("the tiles of this table entry do not cover {left} of the operation's {m} rows");
            return Err((Some(number), why));
        }
        return Ok(cut);
    }
    let has = match most {
        0 => "it has no entries".to_owned(),
        _ => format!("its entries begin at m = {least} and end at m = {most}"),
    };
    Err((None, format!("the table has no entry for m = {m}; {has}\nhint: write another table with --table-m {m}")))
}

fn csv(rows: &[Row]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for Row { from, to, parameters: [tile, tiles, tail, tails] } in rows {
        writeln!(text, "{from},{to},{tile},{tiles},{tail},{tails}").expect("memory");
    }
    text
}

fn header(options: &PlanRequest, rows: &[Row]) -> String {
    let PlanRequest { n, k, ranks, .. } = options;
    let name = options.operation.name();
    let mut text = format!(
        "/* {name} on {ranks} ranks, n = {n}, k = {k}; generated by windrow plan.\n   \
         A row of this table applies to every m from m_from to m_to. Its tiles are those for m_to; \
         the last tile ends at m. */\n\
         static const struct {{\n    unsigned long long m_from, m_to, tileM, tileNum, tailM, tailNum;\n}} {ARRAY} = {{\n"
    );
    for Row { from, to, parameters: [tile, tiles, tail, tails] } in rows {
        writeln!(text, "    {{{from}, {to}, {tile}, {tiles}, {tail}, {tails}}},").expect("memory");
    }
    text + "};\n"
}

#[cfg(test)]
mod tests {
    use super::super::FusedOperation;
    use super::*;
    use crate::Rows;

    fn tiles(rows: &[u64]) -> Tiles {
        Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn parameters_of_two_sizes() {
        assert_eq!(parameters(&tiles(&[512, 896, 896])), [512, 1, 896, 2]);
        assert_eq!(parameters(&tiles(&[896, 896, 512])), [896, 2, 512, 1]);
        assert_eq!(parameters(&tiles(&[896, 896])), [896, 2, 0, 0]);
        assert_eq!(parameters(&tiles(&[896])), [896, 1, 0, 0]);
    }

    #[test]
    fn tables_are_read_as_kernels_read_them() {
        let rows = [
            Row { from: 1, to: 512, parameters: [256, 2, 0, 0] },
            Row { from: 513, to: 768, parameters: [128, 1, 320, 2] },
            Row { from: 769, to: 800, parameters: [100, 1, 0, 0] },
        ];
        let options = PlanRequest::new(FusedOperation::MatmulAllReduce, [768, 64, 64], 3);
        for text in [csv(&rows), header(&options, &rows), csv(&rows).replace('\n', "\r\n")] {
            assert!(is_table(&text), "{text}");
            let tiles = |m| tiles_for(&text, m);
            assert_eq!(
                [1, 300, 512, 513, 768].map(|m| tiles(m).unwrap()),
                [vec![1], vec![256, 44], vec![256, 256], vec![128, 320, 65], vec![128, 320, 320]]
            );
            let (line, why) = tiles(800).unwrap_err();
            assert!(line.is_some() && why.ends_with("entry do not cover 700 of the operation's 800 rows"), "{why}");
            let (line, why) = tiles(801).unwrap_err();
            assert!(
                line.is_none()
                    && why.starts_with(
                        "the table has no entry for m = 801; its entries begin at m = 1 and end at m = 800\n"
                    )
            );
        }
        for text in ["1,2,3", "1,2,3,4,5,six", "1,2,3,4,5,6,7", "-1,2,3,4,5,6"] {
            let (line, why) = tiles_for(&format!("{COLUMNS}\n{text}\n"), 5).unwrap_err();
            assert!(line == Some(2) && why.contains("is not a row of a table"), "{text}: {why}");
        }
        // Any number of tiles, and tiles without rows.
        assert_eq!(tiles_for(&format!("{COLUMNS}\n1,9,4,18446744073709551615,0,1\n"), 9), Ok(vec![4, 4, 1]));
        assert_eq!(tiles_for(&format!("{COLUMNS}\n1,9,0,18446744073709551615,9,1\n"), 9), Ok(vec![9]));
        assert!(!is_table("[512, 512]") && !is_table("/* no table */"));
    }

    #[test]
    fn neighbours_are_joined_if_that_loses_nothing() {
        let plans = [
            (128, tiles(&[128])),
            (256, tiles(&[256])),
            (384, tiles(&[256, 128])),
            (512, tiles(&[256, 256])),
            (640, tiles(&[128, 512])),
            (768, tiles(&[128, 640])),
        ];
        let row = |from, to, parameters| Row { from, to, parameters };
        let joined = joined(&plans);
        assert_eq!(
            joined,
            [row(128, 512, [256, 2, 0, 0]), row(513, 768, [128, 1, 640, 1])],
            "one tile is the head of two, and {{128, 512}} that of {{128, 640}}"
        );
        assert_eq!(csv(&joined).lines().nth(2), Some("513,768,128,1,640,1"));
    }
}
