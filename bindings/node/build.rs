//! Tells the linker that Node has the functions which an addon calls.

fn main() {
    napi_build::setup();
}
