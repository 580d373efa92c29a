#!/bin/sh
# Makes lastuse-VERSION-1.MACHINE.rpm and lastuse-devel-VERSION-1.MACHINE.rpm in the folder of this script, from the
# tarball of the sources there. Needs cargo-generate-rpm 0.21 (cargo install --locked cargo-generate-rpm@0.21.0).
#   sh build.sh lastuse-VERSION.tar.gz
set -eu
cd "$(dirname "$0")"
out=$PWD
tar -xf "$1"
cd "$(basename "$1" .tar.gz)"

cmake -B build -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib64 \
    -DLASTUSE_TOOL=ON -DLASTUSE_SHARED=OFF
cmake --build build
DESTDIR=$PWD/root cmake --install build

# The name and the assets of a package are its table in lastuse.toml; version and licence are those of the tool.
for package in lastuse lastuse-devel; do
    cargo generate-rpm --package tool --metadata-overwrite "$out/lastuse.toml#$package" --output "$out/"
done
