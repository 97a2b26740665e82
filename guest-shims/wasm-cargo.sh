# For scripts that build for WebAssembly, to be sourced: what is missing is named, with the line that installs it.

# What is missing, and the line that installs it. Ends the program's build, not the script. `$name`: what is built.
missing() { echo "$name: $1 is missing; install it with: $2" >&2; exit 1; }

# Newest linker of the name wasm-ld or, as Debian calls it, wasm-ld-22.
wasm_ld() { command -v wasm-ld || compgen -c wasm-ld- | sort -V | tail -n 1; }

# `cargo build` for a WebAssembly target, run in a directory: wasm_cargo DIRECTORY TARGET [ARGUMENT…]. rustup's cargo where it has
# the target, else Debian's Rust, which comes with the sources of its standard library; the flags say where Debian has its C
# library. No path of this machine gets into what is built.
wasm_cargo() {
  local directory=$1 target=$2 home=${CARGO_HOME:-$HOME/.cargo} remap
  shift 2
  cd "$directory"
  remap="--remap-path-prefix=$home=/cargo --remap-path-prefix=$root=/glovebox"
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=$remap CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS=$remap
  if [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    cargo build --quiet --locked --target "$target" "$@"
    return
  fi
  local libc=/usr/lib/wasm32-wasi linker
  linker=$(wasm_ld)
  [ -n "$linker" ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ] && [ -f $libc/libc.a ] ||
    missing "Rust's target $target" "rustup target add $target
  (or, on Debian: apt-get install --no-install-recommends rustc-web cargo-web rust-web-src lld-22 wasi-libc)"
  env -u RUSTUP_TOOLCHAIN PATH=/usr/bin:/bin RUSTC_BOOTSTRAP=1 \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$linker" CARGO_TARGET_WASM32_WASIP1_LINKER="$linker" \
    CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$remap -Clink-self-contained=no -Lnative=$libc -Clink-arg=$libc/crt1.o" \
    /usr/bin/cargo build --quiet --locked -Zbuild-std=std,panic_abort --target "$target" "$@"
}
