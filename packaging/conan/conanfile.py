"""lastuse for programs in C and C++, from the tarball of the sources next to this file. Needs cargo."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, rm, rmdir, unzip


class Lastuse(ConanFile):
    name = "lastuse"
    version = "0.1.0"
    description = "Graph memory allocator for ggml that needs less memory"
    license = "MIT"
    package_type = "library"
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    exports_sources = "lastuse-*.tar.gz"

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("lastuse is for Linux on x86-64 and aarch64")

    def package_id(self):
        # The libraries are Rust's, with an interface of C.
        del self.info.settings.compiler
        del self.info.settings.build_type

    def source(self):
        unzip(self, f"lastuse-{self.version}.tar.gz", strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({"LASTUSE_SHARED": bool(self.options.shared), "LASTUSE_INJECT": False})
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        libraries = os.path.join(self.package_folder, "lib")
        # Conan writes these for each program.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, os.path.join(libraries, folder))
        if self.options.shared:
            rm(self, "*.a", libraries)

    def package_info(self):
        # A linker takes ggml's functions from the library that comes first: as an option, lastuse comes before all
        # libraries. lastuse-targets.cmake does the same.
        libraries = os.path.join(self.package_folder, "lib")
        if self.options.shared:
            # The name of the library is for the run path.
            self.cpp_info.libs = ["lastuse"]
            flags = ["-Wl,--push-state,--no-as-needed", os.path.join(libraries, "liblastuse.so"), "-Wl,--pop-state"]
        else:
            self.cpp_info.system_libs = ["dl", "m", "pthread"]
            flags = ["-Wl,-u,ggml_gallocr_new_n", os.path.join(libraries, "liblastuse.a")]
        self.cpp_info.exelinkflags = flags
        self.cpp_info.sharedlinkflags = flags
