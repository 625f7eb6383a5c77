//! A small disk of its own for one process: a file with a file system in it, which can be made slow. It needs root, loop
//! devices and cgroups of the first version; where they are missing, that is said and faults of disks are skipped.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Writes a second of a disk, by device.
const WRITES: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device";

/// Size of a disk. Its file takes only what is written.
const SIZE: u64 = 2 << 30;

/// A mounted disk. Its mount, and with that the device, ends with the work folder that it is in.
#[derive(Debug)]
pub struct Disk {
    /// Its device's numbers: `7:0`.
    device: String,
}

impl Disk {
    /// Makes one in the file `image` and mounts it at `folder`, which is empty.
    ///
    /// # Errors
    /// This machine or this user cannot.
    pub fn mount(image: &Path, folder: &Path) -> Result<Self> {
        ensure!(Path::new(WRITES).exists(), "there is no {WRITES}");
        fs::create_dir_all(folder)?;
        fs::File::create(image)?.set_len(SIZE)?;
        run(Command::new("mkfs.ext4").arg("-q").arg(image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(folder))?;
        let number = fs::metadata(folder)?.dev();
        let disk = Self {
            device: format!("{}:{}", major(number), minor(number)),
        };
        // what cannot be made slow is of no use
        disk.slow(Some(1000))?;
        disk.slow(None)?;
        Ok(disk)
    }

    /// Lets it take so many writes a second, or as many as it can.
    ///
    /// # Errors
    /// The system refuses.
    pub fn slow(&self, writes: Option<u32>) -> Result<()> {
        // 0 stands for no limit
        let limit = format!("{} {}", self.device, writes.unwrap_or(0));
        fs::write(WRITES, limit).with_context(|| format!("write {WRITES}"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The watchdog of the work folder ends the mount: before that it has to find processes by their folders.
        let _ = self.slow(None);
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The kind of a device of Linux.
const fn major(device: u64) -> u64 {
    (device >> 8 & 0xfff) | (device >> 32 & !0xfff)
}

/// Which of its kind.
const fn minor(device: u64) -> u64 {
    (device & 0xff) | (device >> 12 & !0xff & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_told_by_two_numbers() {
        assert_eq!((major(0x0700), minor(0x0703)), (7, 3));
        assert_eq!((major(0xfd00), minor(0x10_fd01)), (253, 257));
    }
}
