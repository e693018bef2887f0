//! Tiles of many numbers of rows, as a table that a kernel can include: ranges of m, and the parameters of two-size tiles.
//!
//! A row holds for all m of its range: they use the tiles of the last m, and the last tile ends at m. The table has the rows that were asked
//! for; neighbours are joined if the tiles of the larger m, ended at the smaller, are those of the smaller.

use std::fmt::Write as _;

use windrow_tiling::tile::Tiles;

use super::args::Options;
use super::choice::Choice;
use super::samples::Measured;
use super::{Refused, impossible, with_problem};

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    from: u64,
    to: u64,
    /// tileM, tileNum, tailM, tailNum.
    parameters: [u64; 4],
}

/// The table that was asked for; empty without `--table`.
pub(super) fn text(options: &Options, measured: &Measured) -> Result<String, Refused> {
    let (Some(path), Some(spans)) = (&options.table, &options.table_m) else { return Ok(String::new()) };
    let mut plans = Vec::new();
    for m in spans.rows(options.aligned())? {
        let options = Options { m, ..options.clone() };
        options.check()?;
        let fits = measured.fit(&options)?;
        let margin = measured.margin(&fits, m);
        let choice =
            with_problem(&options, measured, &fits, |problem| Choice::new(problem, measured, margin, options.family));
        plans.push((m, choice.map_err(|error| impossible(measured, error))?.plan.tiles));
    }
    let rows = joined(&plans);
    Ok(if path.extension().is_some_and(|extension| extension == "h") { header(options, &rows) } else { csv(&rows) })
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

fn csv(rows: &[Row]) -> String {
    let mut text = "m_from,m_to,tileM,tileNum,tailM,tailNum\n".to_owned();
    for Row { from, to, parameters: [tile, tiles, tail, tails] } in rows {
        writeln!(text, "{from},{to},{tile},{tiles},{tail},{tails}").expect("memory");
    }
    text
}

fn header(options: &Options, rows: &[Row]) -> String {
    let Options { n, k, ranks, .. } = options;
    let name = options.operation.name();
    let mut text = format!(
        "/* {name} on {ranks} ranks, n = {n}, k = {k}: by windrow plan.\n   \
         A row holds from m_from to m_to rows. Its tiles are those of m_to rows; the last tile ends at m. */\n\
         static const struct {{\n    unsigned long long m_from, m_to, tileM, tileNum, tailM, tailNum;\n}} windrow_tiles[] = {{\n"
    );
    for Row { from, to, parameters: [tile, tiles, tail, tails] } in rows {
        writeln!(text, "    {{{from}, {to}, {tile}, {tiles}, {tail}, {tails}}},").expect("memory");
    }
    text + "};\n"
}

#[cfg(test)]
mod tests {
    use windrow_tiling::Rows;

    use super::*;

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
