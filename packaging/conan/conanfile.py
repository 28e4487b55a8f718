"""Conan 2: conan create packaging/conan --build=missing. It exports the tree that it lies in."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

required_conan_version = ">=2"


class ZklockConan(ConanFile):
    name = "zklock"
    description = "Locks and other recipes for C and C++ on Apache ZooKeeper"
    license = "Apache-2.0"
    settings = "os", "arch", "compiler", "build_type"
    package_type = "library"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "..", "..", "include", "zklock", "version.h"))
        self.version = re.search(r'ZKL_VERSION "(.*)"', header).group(1)

    def export_sources(self):
        tree = os.path.join(self.recipe_folder, "..", "..")
        for folder in ("cmake", "include", "man", "recipes", "src", "systemd"):
            copy(self, folder + "/*", tree, self.export_sources_folder)
        for name in ("CMakeLists.txt", "CHANGELOG.md", "LICENSE"):
            copy(self, name, tree, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("zookeeper-client-c/[>=3.8]", transitive_libs=True)

    def generate(self):
        # zklock's own FindZooKeeper knows the static library; all it needs is the place.
        client = self.dependencies["zookeeper-client-c"].package_folder
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["ZooKeeper_INCLUDE_DIR"] = os.path.join(client, "include")
        toolchain.cache_variables["ZooKeeper_LIBRARY"] = os.path.join(client, "lib", "libzookeeper.a")
        for what in ("COMMAND", "TESTS", "EXAMPLES"):
            toolchain.cache_variables["ZKLOCK_" + what] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["zklock"]
        self.cpp_info.system_libs = ["pthread", "m", "dl"]
        if not self.options.shared:
            self.cpp_info.requires = ["zookeeper-client-c::zookeeper-client-c"]
