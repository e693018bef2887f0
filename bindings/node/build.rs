//! Passes the functions of Node that an addon calls to the linker.

fn main() {
    napi_build::setup();
}
