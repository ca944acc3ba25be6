//! The `thermocline` command. Everything it does is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    thermocline_server::cli::main()
}
