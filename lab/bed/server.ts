import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { LOOPBACK_CHANNEL } from '../../src/client/server.js';
import { chooseServerPorts, startDevServer } from '../../dev/dev-server.js';
import { findTemporalCli } from '../../tools/temporal-cli/find.js';
import type { Ports } from '../../dev/dev-server.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

export { PROJECT_ROOT };

export interface TestServer {
  /** `127.0.0.1:<port>` */
  address: string;
  namespace: string;
  client: Client;
  /** Closes the connection, and ends the process if this file started it. */
  stop: () => Promise<void>;
}

export interface OwnServer extends TestServer {
  ports: Ports;
  pid: number;
}

export interface OwnServerOptions {
  /** For its log, `temporal.log`. */
  directory: string;
  /** null: in memory. A file survives `stop`, for a server that starts again. */
  db_file: string | null;
  /** The ports of a restarted server; absent: free ones. */
  ports?: Ports;
  /** false: it serves in order of arrival. */
  shares?: boolean;
  /** Where it serves its own metrics; absent: any free port. */
  metrics_port?: number;
}

/**
 * The server that the run's files share (tools/run-tests.mjs), with a namespace for this file. A file that runs alone
 * gets its own server.
 */
export async function startTestServer({ directory }: { directory: string }): Promise<TestServer> {
  const address = process.env['TEST_TEMPORAL_ADDRESS'];
  if (address === undefined) return await startOwnServer({ directory, db_file: null });
  const namespace = path.basename(process.argv[1] ?? '').replace(/\.test\.[jt]s$/, '');
  const connection = await connect(address);
  return {
    address,
    namespace,
    client: new Client({ connection, namespace }),
    stop: () => connection.close(),
  };
}

/** `temporal server start-dev`, started as the project does. It ends with this process, however that ends. */
export async function startOwnServer({
  directory,
  db_file,
  ports,
  ...serves
}: OwnServerOptions): Promise<OwnServer> {
  const cli = await findTemporalCli({
    env: process.env,
    projectRoot: PROJECT_ROOT,
    say: console.log,
  });
  const chosen = ports ?? (await chooseServerPorts({ server: 0, ui: 0 }));
  const server = await startDevServer({
    cliPath: cli.path,
    ports: chosen,
    dbFile: db_file,
    headless: true,
    ...serves,
    logFile: path.join(directory, 'temporal.log'),
  });
  const { address, namespace, pid } = server;
  const connection = await connect(address).catch(async (error: unknown) => {
    await server.stop();
    throw error;
  });
  return {
    address,
    namespace,
    pid,
    ports: chosen,
    client: new Client({ connection, namespace }),
    stop: async () => {
      await connection.close();
      await server.stop();
    },
  };
}

const connect = (address: string): Promise<Connection> =>
  Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL, connectTimeout: '10s' });
