/** The process in which a module runs: a loop in its code, or a crash, is this process's alone. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describeError } from '../../platform/errors.js';
import { userCacheFolder } from '../../platform/user-cache.js';
import { onceItSucceeds } from '../../platform/waits/shared.js';
import type { EnvironmentContext } from './authoring.js';
import { loadModule } from './loading.js';
import { createRoutes } from './routes.js';
import { tell, watchProcess } from './watch.js';
import { FUNCTIONS, START_VARIABLE, type ModuleStart } from './wire.js';

const start = JSON.parse(process.env[START_VARIABLE] ?? '') as ModuleStart;
Reflect.deleteProperty(process.env, START_VARIABLE);

const report = (message: string): void => {
  tell({ kind: 'report', message });
};

/** The grader of this process, loaded at the first question. */
async function openGrader() {
  const { createGraderPool, installedGrader } = await import('../math/grader-pool.js');
  return createGraderPool(installedGrader({ env: process.env, say: report }));
}

async function openRetrievers() {
  const { createRetrievers } = await import('../retriever/open-retriever.js');
  const folder = path.join(userCacheFolder(process.env), 'durable-rollouts', 'retriever');
  const settingsOf = (name: string) => start.environments[name];
  return createRetrievers({ settingsOf, folder, env: process.env, report });
}

const grader = onceItSucceeds(openGrader);
const retrievers = onceItSucceeds(openRetrievers);

const context: EnvironmentContext = {
  name: start.name,
  env: (variable) => {
    tell({ kind: 'secret', variable });
    return process.env[variable];
  },
  report,
  grader: {
    compare: async (pair, signal) => (await grader()).compare(pair, signal),
    health: async (signal) => (await grader()).health(signal),
    close: async () => (await grader()).close(),
  },
  retriever: async (name) => (await retrievers())(name),
};

const watch = watchProcess(start);
try {
  const made = await loadModule(start, context);
  const own: object = made;
  const has = FUNCTIONS.filter((name) => Reflect.get(own, name) !== undefined);
  watch.loaded(has.includes('begin') || has.includes('end'));
  // Calls may wait behind a loop for longer than any limit of the server.
  const limits = { requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 };
  const server = createServer(limits, createRoutes({ made, start, watch }));
  server.listen({ port: 0, host: '127.0.0.1', backlog: 65_535 }, () => {
    tell({ kind: 'ready', port: (server.address() as AddressInfo).port, has });
  });
} catch (error) {
  tell({ kind: 'failed', message: describeError(error) });
  process.exit(1);
}
