// How a test file loads modules: by Node's own `require`, so that all files of a process share them. jest's would load each
// module again for each file, which costs a second for what a worker is made of, and leaves all of its code cold.
//
// A module's state outlives a test file, then. jest still loads the test files themselves, and what one asks for with
// `jest.requireActual`, where its mocks have effect.

const { createRequire } = require('node:module');
const { default: Runtime } = require('jest-runtime');

/** By the path of a module. */
const sourceMaps = new Map();

let ofThisFile;

for (const extension of ['.ts', '.tsx']) {
  require.extensions[extension] = (module, path) => module._compile(ofThisFile.transformCache.transform(path), path);
}

module.exports = class extends Runtime {
  constructor(config, environment, resolver, transformer, files, coverage, testPath, globalConfig) {
    super(config, environment, resolver, transformer, files, coverage, testPath, globalConfig);
    ofThisFile = this;
    this.transformCache.sourceMaps = sourceMaps;
    this.testPath = testPath;
    this.load = createRequire(testPath);
    // jest hands it to the modules that it loads itself.
    environment.global.jest = this.jestGlobals.jestObjectFor(testPath);
  }

  requireModuleOrMock(from, name) {
    return from === this.testPath ? this.load(name) : super.requireModuleOrMock(from, name);
  }
};
