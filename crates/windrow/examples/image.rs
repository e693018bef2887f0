//! Independent items: the rows of a picture of the Mandelbrot set. A row through the set takes many times as long as one at the edge.
//!
//! `cargo run --release -p windrow --example image`

use std::io;

use windrow::prelude::*;

const WIDTH: usize = 600;
const HEIGHT: usize = 400;

/// The colours of a picture: red, green and blue of each pixel.
fn paint() -> Vec<u8> {
    let mut pixels = vec![0; 3 * WIDTH * HEIGHT];
    pixels.par_chunks_mut(3 * WIDTH).enumerate().for_each(|(row, pixels)| {
        let im = 2.4 * row as f64 / HEIGHT as f64 - 1.2;
        for (column, pixel) in pixels.chunks_exact_mut(3).enumerate() {
            let steps = steps(3.6 * column as f64 / WIDTH as f64 - 2.5, im);
            pixel.copy_from_slice(&[steps, steps.wrapping_mul(5), steps.wrapping_mul(11)]);
        }
    });
    pixels
}

/// Steps until the point is farther than 2 from the origin, 255 at most.
fn steps(re: f64, im: f64) -> u8 {
    let (mut x, mut y) = (0.0, 0.0);
    for steps in 0..255 {
        if x * x + y * y > 4.0 {
            return steps;
        }
        (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
    }
    255
}

// The tests run it too.
pub(crate) fn main() -> io::Result<()> {
    let (pixels, why) = windrow::explain(paint);
    let inside = pixels.par_chunks(3).filter(|pixel| pixel[0] == 255).count();
    let path = std::env::temp_dir().join("windrow-mandelbrot.ppm");
    std::fs::write(&path, [format!("P6 {WIDTH} {HEIGHT} 255\n").as_bytes(), &pixels].concat())?;
    println!("{}: {inside} of {} pixels are in the set", path.display(), WIDTH * HEIGHT);
    println!("{}", why[0]);
    assert_eq!(pixels, windrow::Pool::new(1).install(paint), "the picture of one thread");
    Ok(())
}
