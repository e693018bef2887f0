//! A real server of S3: moto, a package of Python. `cargo xtask ci store` installs it and names it in `WINDROW_MOTO`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::server::Server;
use crate::{command, corpus, same};

struct Moto(Child, String);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Moto {
    /// Starts it at a free port, which it prints.
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("WINDROW_MOTO") else {
            println!("skipped: WINDROW_MOTO does not name moto_server");
            return None;
        };
        let mut child =
            Command::new(program).args(["-H", "127.0.0.1", "-p", "0"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let found = lines.find_map(|line| Some(format!("http://{}", line.split_once("Running on http://")?.1.trim())));
        // It must not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self(child, found.expect("it prints where it runs")))
    }

    /// A request without a signature, which moto does not check.
    fn put(&self, path: &str, body: &[u8]) {
        let host = self.1.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let path = path.replace(' ', "%20").replace('é', "%C3%A9");
        let length = body.len();
        let head =
            format!("PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
}

#[test]
fn a_bucket_of_a_real_server_is_a_folder() {
    let Some(moto) = Moto::start() else { return };
    let (place, objects) = corpus();
    moto.put("/bkt", b"");
    for (name, bytes) in &objects {
        moto.put(&format!("/{name}"), bytes);
    }
    // A folder as consoles create it, and more keys than a page of a list holds.
    moto.put("/bkt/c/d/", b"");
    moto.put("/many", b"");
    for number in 0..1_010 {
        moto.put(&format!("/many/k/{number:04}.txt"), b"the");
        place.file(&format!("many/k/{number:04}.txt"), "the");
    }
    let server = Server::at(&moto.1);
    for options in ["", "--all-text", "--lines --threads 1"] {
        same(&place, &server, ["bkt/c", "s3://bkt/c/"], "s3://", options);
    }
    same(
        &place,
        &server,
        ["bkt/c/g.parquet bkt/c/d/e.txt.gz", "s3://bkt/c/g.parquet s3://bkt/c/d/e.txt.gz"],
        "s3://",
        "",
    );
    same(&place, &server, ["many", "s3://many/"], "s3://", "--shard-size 1K");

    for (input, says) in
        [("s3://bkt/no.txt", "no such object"), ("s3://no/", "no such object"), ("s3://bkt/c", "this is a folder")]
    {
        let run = format!("encode {input} -o out --tokenizer tiny.json");
        crate::Ran::of(command(&place, &moto.1, &run).output().unwrap()).fails(&run, 2, &[input, says]);
    }
}
