# The tool, its libraries, and what is put into the ggml of other packages, as CMake installs them.
{ lib, stdenv, cmake, cargo, rustc, rustPlatform }:

stdenv.mkDerivation {
  pname = "lastuse";
  version = "0.1.0";
  src = lib.cleanSource ../..;

  # Packages of Rust, by their checksums in Cargo.lock; the hook has cargo take them from there.
  cargoDeps = rustPlatform.importCargoLock { lockFile = ../../Cargo.lock; };
  nativeBuildInputs = [ cmake cargo rustc rustPlatform.cargoSetupHook ];

  # The tool looks for libraries in ../lib; paths are relative to the prefix, which is one for all.
  cmakeFlags = [ "-DLASTUSE_TOOL=ON" "-DCMAKE_INSTALL_LIBDIR=lib" "-DCMAKE_INSTALL_INCLUDEDIR=include" ];

  meta = {
    description = "Graph memory allocator for ggml that needs less memory";
    license = lib.licenses.mit;
    mainProgram = "lastuse";
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}
