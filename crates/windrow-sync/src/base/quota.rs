//! The CPU quota of the process's cgroup.

use std::path::Path;

use crate::base::machine;

/// The CPU time per second that the process's cgroup (version 2 or 1) may use, in CPUs; `None` without a limit, or without such
/// files.
///
/// Under a quota, spinning spends CPU time that the work needs (dotnet/runtime issue 112869), so the runtime asks.
pub fn cpu_quota() -> Option<f64> {
    if cfg!(target_os = "linux") { read(Path::new("/")) } else { None }
}

/// The quota, if [`cpus`](machine::cpus) is that quota rounded down: as many threads leave a part of a CPU unused.
pub fn rounded_down() -> Option<f64> {
    cpu_quota().filter(|quota| leaves_a_part(*quota, machine::cpus()))
}

fn leaves_a_part(quota: f64, cpus: usize) -> bool {
    quota.floor() == cpus as f64 && quota.fract() > 0.0
}

/// The tightest limit between the process's group and the root. `root` is `/`, except in tests.
fn read(root: &Path) -> Option<f64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let group = Path::new(group.trim_start_matches('/'));
        let version1 = controllers.split(',').any(|name| name == "cpu");
        if !controllers.is_empty() && !version1 {
            continue;
        }
        for level in group.ancestors() {
            limits.extend(if version1 {
                limit_v1(&root.join("sys/fs/cgroup/cpu").join(level))
            } else {
                limit_v2(&root.join("sys/fs/cgroup").join(level))
            });
        }
    }
    limits.into_iter().min_by(f64::total_cmp)
}

/// `cpu.max`: "quota period" or "max period", in microseconds.
fn limit_v2(dir: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(dir.join("cpu.max")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    ratio(numbers.next()?.ok()?, numbers.next()?.ok()?)
}

fn limit_v1(dir: &Path) -> Option<f64> {
    let number = |name| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<f64>().ok();
    ratio(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_cpu_is_left_where_the_quota_is_what_limits() {
        for (quota, cpus, leaves) in
            [(1.5, 1, true), (3.25, 3, true), (0.5, 1, false), (2.0, 2, false), (2.5, 2, true), (3.5, 2, false)]
        {
            assert_eq!(leaves_a_part(quota, cpus), leaves, "{quota} CPUs, {cpus} threads");
        }
    }

    #[test]
    fn quota_is_the_tightest_on_the_way_to_the_root() {
        let root = std::env::temp_dir().join(format!("windrow-quota-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(read(&root), None);
        write("proc/self/cgroup", "0::/outer/inner\n");
        assert_eq!(read(&root), None);
        write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
        assert_eq!(read(&root), None);
        write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
        assert_eq!(read(&root), Some(1.5));
        write("sys/fs/cgroup/outer/inner/cpu.max", "50000 100000\n");
        assert_eq!(read(&root), Some(0.5));
        write("proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/one\n");
        write("sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "-1\n");
        write("sys/fs/cgroup/cpu/one/cpu.cfs_period_us", "100000\n");
        assert_eq!(read(&root), None);
        write("sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "200000\n");
        assert_eq!(read(&root), Some(2.0));
        std::fs::remove_dir_all(root).unwrap();
    }
}
