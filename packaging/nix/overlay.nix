# lastuse, and llama-cpp with lastuse inside its ggml:
#   import <nixpkgs> { overlays = [ (import ./overlay.nix) ]; }
# The sources are those that this file is a part of. Other packages that build ggml by CMake are overridden in the same way.
final: prev:

let
  inject = package: package.overrideAttrs (old: {
    cmakeFlags = (old.cmakeFlags or [ ]) ++ [
      "-DCMAKE_PROJECT_INCLUDE=${final.lastuse}/lib/cmake/lastuse/lastuse-inject.cmake"
    ];
  });
in
{
  lastuse = final.callPackage ./package.nix { };
  llama-cpp = inject prev.llama-cpp;
  whisper-cpp = inject prev.whisper-cpp;
}
