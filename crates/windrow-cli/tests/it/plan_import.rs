//! `windrow plan --format`: samples from the tables of profilers.

use serde_json::{Value, json};

use crate::common::Place;

const PLAN: &str = "plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8";

/// Microseconds of the kernels of every table here.
fn compute(m: u64) -> f64 {
    0.2 * m as f64
}

fn communicate(m: u64) -> f64 {
    60.0 + 0.2 * m as f64
}

const SIZES: [u64; 4] = [256, 512, 1024, 2048];

/// The columns of op_summary, as CANN 8 writes them.
fn msprof() -> String {
    let mut csv = "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),\
                   Task Duration(us),Task Wait Time(us),Block Dim,Input Shapes,Input Data Types,Output Shapes\n"
        .to_owned();
    for (place, m) in SIZES.into_iter().enumerate() {
        let start = 1000 * place;
        csv += &format!(
            "0,1,{place},2,aclnnMatmul_MatMulV3,MatMulV3,static,AI_CORE,{start}.5,{},0.1,20,\"{m},3072;3072,8192\",\
             FLOAT16;FLOAT16,\"{m},8192\"\n",
            compute(m)
        );
        csv += &format!(
            "0,1,{place},3,hcom_allReduce__1_{place},hcom_allReduce_,N/A,COMMUNICATION,{start}.9,{},0.1,0,\"{m},8192\",\
             FLOAT16,\"{m},8192\"\n",
            communicate(m)
        );
        csv += &format!("0,1,{place},2,Cast_{place},Cast,static,AI_VECTOR,{start}.7,3.5,0.1,20,N/A,N/A,N/A\n");
    }
    csv
}

/// The columns of cuda_gpu_trace, as Nsight Systems 2024 writes them, below its messages. Rows need not be in order.
fn nsys() -> String {
    let mut rows = Vec::new();
    for (place, m) in SIZES.into_iter().enumerate() {
        for repeat in 0..2 {
            let start = 1_000_000 * (2 * place + repeat);
            let row = |start: usize, us: f64, name: &str| {
                format!("{start},{},7,64,1,1,128,1,1,168,0.000,0.025,,,,,NVIDIA H100 (0),1,,7,{name}\n", 1e3 * us)
            };
            rows.push(row(start, compute(m), "\"void cutlass::gemm<float, (int)2>(float*, int)\""));
            rows.push(row(start + 9, communicate(m), "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgs)"));
            rows.push(row(start + 5, 2.5, "[CUDA memset]"));
        }
    }
    rows.reverse();
    let head = "Processing [run.sqlite] with [cuda_gpu_trace.py]... \n\n\
                Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),\
                Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n";
    head.to_owned() + &rows.concat()
}

/// The columns of key_averages(group_by_input_shape=True).table() of PyTorch 2.
fn torch() -> String {
    let mut csv =
        "Name,Self CPU %,Self CPU,CPU total %,CPU total,CPU time avg,Self CUDA,Self CUDA %,CUDA total,CUDA time avg,\
                   # of Calls,Input Shapes\n"
            .to_owned();
    for m in SIZES {
        csv += &format!(
            "aten::addmm,1.00%,10.000us,1.00%,12.000us,12.000us,{0:.3}us,1%,{0:.3}us,{0:.3}us,1,\
             \"[[8192], [{m}, 3072], [3072, 8192], [], []]\"\n",
            compute(m)
        );
        csv += &format!(
            "c10d::allreduce_,1.00%,10.000us,1.00%,12.000us,12.000us,{0:.6}ms,1%,{0:.6}ms,{0:.6}ms,1,\"[[[{m}, 8192]], [], []]\"\n",
            communicate(m) / 1e3
        );
        csv += "aten::empty,1.00%,10.000us,1.00%,12.000us,12.000us,0.000us,0.00%,0.000us,0.000us,8,[]\n";
    }
    csv
}

fn fits(plan: &Value) -> Vec<(u64, f64)> {
    let of = |stage: &str| {
        let fit = &plan["fits"][stage];
        (fit["sizes"].as_u64().unwrap(), fit["whole_us"].as_f64().unwrap())
    };
    vec![of("compute"), of("communicate")]
}

#[track_caller]
fn check(plan: &Value) {
    let [computed, communicated] = fits(plan)[..] else { panic!() };
    assert_eq!((computed.0, communicated.0), (4, 4), "{plan}");
    assert!((computed.1 / compute(4096) - 1.0).abs() < 1e-3, "{plan}");
    assert!((communicated.1 / communicate(4096) - 1.0).abs() < 1e-3, "{plan}");
}

const MSPROF: &str = "--cost op.csv --format msprof --compute-kernel MatMul --communicate-kernel hcom_allReduce";
const NSYS: &str = "--cost t.csv --format nsys --compute-kernel void*gemm --communicate-kernel ncclDevKernel_AllReduce";
const TORCH: &str = "--cost k.csv --format torch --compute-kernel aten::addmm --communicate-kernel c10d::allreduce_";

fn place() -> Place {
    let place = Place::new();
    place.file("op.csv", msprof()).file("t.csv", nsys()).file("k.csv", torch());
    place
}

#[test]
fn tables_of_profilers_are_samples() {
    let place = place();
    let all = ["256,512,1024,2048", "256,256,512,512,1024,1024,2048,2048"];
    for flags in [
        MSPROF.to_owned(),
        format!("{NSYS} --sizes {}", all[0]),
        format!("{NSYS} --sizes {}", all[1]),
        TORCH.to_owned(),
        // The sizes of a list count, whatever the shapes are.
        format!("{MSPROF} --sizes {}", all[0]),
    ] {
        let plan = place.line(&format!("{PLAN} {flags} --json")).ok().summary();
        check(&plan);
        let file = flags.split_whitespace().nth(1).unwrap();
        assert!(plan["cost"] == json!(file) && plan["verdict"] == "tile", "{flags}: {plan}");
    }
    // The names of the Ascend profiler of PyTorch, another unit, quotes around all fields, and a byte order mark.
    let kernel_details = msprof()
        .replace("Op Name", "Name")
        .replace("Task Start Time(us)", "Start Time(us)")
        .replace("Task Duration(us)", "Duration(us)");
    place.file("op.csv", format!("\u{feff}{}", kernel_details.replace('\n', "\r\n")));
    check(&place.line(&format!("{PLAN} {MSPROF} --json")).ok().summary());
}

#[test]
fn a_table_may_be_in_parts_and_its_columns_have_other_names() {
    let place = Place::new();
    let csv = |kernel: &str, time: fn(u64) -> f64| {
        let rows = SIZES.map(|m| format!("{kernel},{},{m}\n", time(m) / 1e3));
        format!("key,mean (ms),rows\n{}", rows.concat())
    };
    place.file("a.csv", csv("mm", compute)).file("b.csv", csv("all_reduce", communicate));
    let line = format!(
        "{PLAN} --cost a.csv --cost b.csv --format torch --compute-kernel mm --communicate-kernel reduce --size-column rows"
    );
    let plan = place.run(line.split_whitespace().chain(["--time-column", "mean (ms)", "--json"])).ok().summary();
    check(&plan);
    assert_eq!(plan["cost"], "a.csv, b.csv");
    // Samples may be in parts, too.
    let csv = |stage: &str, time: fn(u64) -> f64| {
        let rows = SIZES.map(|m| format!("{stage},{m},{}\n", time(m)));
        format!("stage,m,microseconds\n{}", rows.concat())
    };
    place.file("c.csv", csv("compute", compute)).file("d.csv", csv("communicate", communicate));
    check(&place.line(&format!("{PLAN} --cost c.csv --cost d.csv --json")).ok().summary());
}

/// What a rank puts into an all-gather is its share of the rows.
#[test]
fn shapes_of_an_all_gather_are_those_of_a_rank() {
    let place = place();
    let plan = PLAN.replace("matmul-all-reduce", "all-gather-matmul");
    let gathered = SIZES
        .into_iter()
        .fold(msprof(), |csv, m| csv.replace(&format!("\"{m},8192\",FLOAT16"), &format!("\"{},8192\",FLOAT16", m / 8)));
    place.file("op.csv", gathered);
    check(&place.line(&format!("{plan} {MSPROF} --json")).ok().summary());
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let place = place();
    let refused = |flags: &str, code: i32, says: &[&str]| {
        let line = format!("{PLAN} {flags}");
        place.line(&line).fails(&line, code, says);
    };
    refused("--cost op.csv", 65, &["op.csv:1: the header is ", "--format msprof, nsys or torch"]);
    refused("--cost op.csv --format msprof --compute-kernel x", 2, &["--communicate-kernel PATTERN"]);
    refused("--cost op.csv --compute-kernel x", 2, &["--format msprof, nsys or torch"]);
    refused("--compute-kernel x --calibrate in-process", 2, &["--format msprof, nsys or torch"]);
    refused("--cost op.csv --format csv", 2, &["msprof", "nsys", "torch"]);
    refused(
        &MSPROF.replace("MatMul", "Gemm"),
        65,
        &[
            "op.csv: no kernel matches --compute-kernel Gemm\n",
            "hint: kernels that belong to neither lane: ",
            "\"aclnnMatmul_MatMulV3\", \"Cast_0\"",
        ],
    );
    refused(
        &MSPROF.replace("MatMul", "*"),
        65,
        &["op.csv:3: ", "matches both --compute-kernel and --communicate-kernel"],
    );
    refused(
        &NSYS.replace("t.csv", "op.csv"),
        65,
        &[
            "it has the columns \"Device_id\", \"Model ID\", ",
            "op.csv must have the columns Name and Duration (ns), but it ",
            "nsys stats --report cuda_gpu_trace --format csv",
        ],
    );
    refused(
        NSYS,
        2,
        &["t.csv:", "the number of rows of this kernel is unknown", "--sizes 256,512,1024", "--size-column"],
    );
    refused(
        &format!("{NSYS} --sizes 256,512,1024"),
        65,
        &["the number of computation kernels, 8, is not a multiple of the number of sizes, 3"],
    );
    refused(&format!("{NSYS} --sizes 256,0"), 2, &["at least 1"]);
    refused(&format!("{NSYS} --sizes 256 --size-column GrdX"), 2, &["cannot be used with"]);
    refused(&format!("{NSYS} --size-column Name"), 65, &["t.csv:", ": no valid number of rows in Name: \""]);
    refused(
        &format!("{NSYS} --size-column rows"),
        65,
        &["must have the columns Name and Duration (ns) and rows, but it "],
    );
    refused(
        &TORCH.replace("aten::addmm", "aten::empty"),
        65,
        &["k.csv:4: CUDA time avg is \"0.000us\"", "--time-column selects another"],
    );
    for (text, says) in [
        ("", "op.csv must have the columns Op Name and Task Duration(us), but it is empty"),
        ("Op Name,Task Duration(us)\nMatMul,1,2\n", "op.csv:2: expected 2 fields, found 3"),
        ("Op Name,Task Duration(us)\nMatMul,fast\n", "op.csv:2: Task Duration(us) is \"fast\""),
        ("Op Name,Task Duration(us)\n\"MatMul,1\n", "op.csv:2: expected 2 fields, found 1"),
        (
            "Op Name,Task Duration(us),Input Shapes\nMatMul,1,N/A\nhcom_allReduce,1,N/A\n",
            "op.csv:2: no valid number of rows in Input Shapes: \"N/A\"",
        ),
    ] {
        place.file("op.csv", text);
        refused(MSPROF, 65, &[says, "hint: "]);
    }
    refused(&MSPROF.replace("op.csv", "no.csv"), 2, &["no.csv does not exist"]);
}

/// A long field or name is cut in messages, however a file ends.
#[test]
fn long_fields_are_cut_in_messages() {
    let place = Place::new();
    let long = "x".repeat(3_000_000);
    for text in [
        long.clone(),
        format!("Op Name,Task Duration(us)\n{long},1\n"),
        format!("Op Name,Task Duration(us)\nMatMul,{long}\n"),
        format!("Op Name,Task Duration(us)\nMatMul{long},1\n"),
    ] {
        place.file("op.csv", text);
        let ran = place.line(&format!("{PLAN} {MSPROF}"));
        assert!(ran.code == Some(65) && ran.stderr.len() < 1000, "{:?} {} bytes", ran.code, ran.stderr.len());
    }
}
