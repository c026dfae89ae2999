// Where the test files run: in the process's own realm, as the code under test does in production, and not in a context of
// their own. There an error of Node's is no `instanceof Error`, and what one file has loaded no other can use (runtime.js).
// What a file changed of the process is changed back after it.

const { AsyncLocalStorage } = require('node:async_hooks');
const vm = require('node:vm');
const { TestEnvironment } = require('jest-environment-node');

const ownRealm = new WeakSet();
const { compileFunction } = vm;

// jest compiles each module for the context that its environment names, and the process's own cannot be named.
vm.compileFunction = (source, parameters, options) =>
  ownRealm.has(options?.parsingContext)
    ? compileFunction(source, parameters, { ...options, parsingContext: undefined })
    : compileFunction(source, parameters, options);

// One that was used once stays switched on for the whole process, and each makes every promise dearer: an await takes 0.1 µs
// with none, 16 µs with fifty. Each connection to Temporal has one.
const usedStorages = new Set();
for (const name of ['run', 'enterWith']) {
  const use = AsyncLocalStorage.prototype[name];
  AsyncLocalStorage.prototype[name] = function (...args) {
    usedStorages.add(this);
    return use.apply(this, args);
  };
}

/** What jest leaves on the global object for the file that runs: its events' receivers, its tests, its limits. */
const OF_ONE_FILE = /^Symbol\((EVENT_HANDLERS|JEST_STATE_SYMBOL|TEST_TIMEOUT_SYMBOL|.*RETR.*)\)$/;

module.exports = class extends TestEnvironment {
  constructor(config, context) {
    super(config, context);
    const { console } = globalThis;
    this.before = { console, exit: process.exit, env: { ...process.env } };
    ownRealm.add(this.context);
    this.global = globalThis;
    this.moduleMocker = new this.moduleMocker.constructor(globalThis);
    const timers = { config: config.projectConfig, global: globalThis, moduleMocker: this.moduleMocker };
    this.fakeTimersModern = new this.fakeTimersModern.constructor(timers);
    this.fakeTimers = new this.fakeTimers.constructor({ ...timers, timerConfig: { idToRef: String, refToId: String } });
  }

  async teardown() {
    this.moduleMocker.restoreAllMocks();
    await super.teardown();
    for (const key of Object.getOwnPropertySymbols(globalThis)) {
      if (OF_ONE_FILE.test(String(key))) Reflect.deleteProperty(globalThis, key);
    }
    const { console, exit, env } = this.before;
    globalThis.console = console;
    process.exit = exit;
    for (const name of Object.keys(process.env)) if (!(name in env)) Reflect.deleteProperty(process.env, name);
    Object.assign(process.env, env);
    for (const storage of usedStorages) storage.disable();
    usedStorages.clear();
  }
};
