# What the overlay makes of a set of packages, which is here without nixpkgs: its functions return what they are given.
#   nix-instantiate --eval --strict --json --arg overlay FOLDER evaluate.nix
{ overlay }:

let
  derivation = attributes: attributes // {
    outPath = "/${attributes.pname}";
    overrideAttrs = change: derivation (attributes // change attributes);
  };
  packages = {
    lib = { cleanSource = path: path; licenses.mit = "MIT"; };
    stdenv.mkDerivation = derivation;
    rustPlatform = { importCargoLock = { lockFile }: builtins.fromTOML (builtins.readFile lockFile); cargoSetupHook = "hook"; };
    cmake = "cmake";
    cargo = "cargo";
    rustc = "rustc";
    callPackage = file: more:
      let function = import file; in function (builtins.intersectAttrs (builtins.functionArgs function) packages // more);
    llama-cpp = derivation { pname = "llama-cpp"; cmakeFlags = [ "-DOTHER=ON" ]; };
    whisper-cpp = derivation { pname = "whisper-cpp"; };
  };
  final = packages // import overlay final packages;
in
{
  inherit (final.lastuse) version cmakeFlags;
  sources = builtins.attrNames (builtins.readDir final.lastuse.src);
  packages = builtins.length final.lastuse.cargoDeps.package;
  llama = final.llama-cpp.cmakeFlags;
  whisper = final.whisper-cpp.cmakeFlags;
}
