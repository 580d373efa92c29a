"""Programs on ggml that lastuse must serve. CMake finds ggml by itself: CMAKE_PREFIX_PATH=PREFIX_OF_GGML conan create ."""

import io
import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TestPackage(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        for program in ("first", "last"):
            output = io.StringIO()
            self.run(os.path.join(self.cpp.build.bindir, program), stdout=output, env="conanrun")
            if "allocator=lastuse\n" not in output.getvalue():
                raise ConanException(f"lastuse does not serve {program}: {output.getvalue()}")
