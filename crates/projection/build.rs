//! Migrations are embedded by a macro, which does not tell cargo that it read a directory.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
