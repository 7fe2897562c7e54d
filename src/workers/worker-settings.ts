import { z } from 'zod';
import { BaseUrl } from '../model/base-url.js';
import { Duration } from '../model/durations.js';
import { durationProblem, toMs } from '../model/workflow-safe/durations.js';
import { bytesOf, Size } from '../platform/size.js';

/** temporal.yaml: `worker`, what one process does. */

export const Role = z.enum(['workflow', 'generation', 'environment', 'gateway']);
export type Role = z.infer<typeof Role>;

/** What the process itself takes; with less, nothing is left for its work (memory.ts). */
const LEAST_MEMORY = '256MiB';

const Memory = Size.refine((text) => bytesOf(text) >= bytesOf(LEAST_MEMORY), {
  error: ({ input }) => `expected ${LEAST_MEMORY} or more, got ${JSON.stringify(input)}`,
});

/** Host and port, or `[::1]:8099`. */
const Listen = z
  .string()
  .regex(
    /^(\[[0-9a-fA-F:.]+\]|[^\s:/[\]]+):\d{1,5}$/,
    'expected host:port, such as 127.0.0.1:0 (port 0: any free one)',
  );

const GatewaySettings = z
  .strictObject({
    listen: Listen.default('127.0.0.1:0').describe(
      'host:port; port 0: another free one after each start, so that programs that run on must begin again',
    ),
    advertise: BaseUrl.nullable()
      .default(null)
      .describe(
        "the URL by which programs reach it, without `/v1`; null: the listener's own, which only this host reaches",
      ),
    direct: BaseUrl.nullable()
      .default(null)
      .describe(
        'the URL by which programs reach this worker alone, where `advertise` leads to several; null: `advertise`',
      ),
    secret_env: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        'the variable that holds the secret of their keys, the same on all workers; null: one in the store',
      ),
  })
  .prefault({});

export const WorkerSettings = z
  .strictObject({
    roles: z
      .array(Role)
      .min(1)
      .refine((roles) => new Set(roles).size === roles.length, 'expected each role once')
      .default(['workflow', 'generation', 'environment'])
      .describe(
        'which activities and workflows this process runs; `gateway` leads programs to the worker that answers them: so does role `environment` with an agent',
      ),
    max_generations: z
      .int()
      .positive()
      .default(256)
      .describe('open generations of each service in this process'),
    turn_slice: z
      .union([Duration, z.literal('0s')], { error: ({ input }) => durationProblem(input) })
      .default('10m')
      .describe('how long one activity plays turn after turn; 2 s while all slots are taken'),
    heartbeat_timeout: Duration.nullable()
      .default(null)
      .describe(
        'an activity without one runs again; null: `30s` or more, `10s` if deaths go unnoticed',
      ),
    memory: Memory.default('1GiB').describe(
      'limit of the whole process, which determines caches and concurrent activities',
    ),
    gateway: GatewaySettings.describe('where programs of agents ask the policy'),
  })
  .prefault({});

/** The heartbeat timeout of activities that play; `seen`: other workers notice the death of one. */
export const heartbeatMs = (
  { worker }: { worker: Pick<z.infer<typeof WorkerSettings>, 'heartbeat_timeout'> },
  seen: boolean,
): number => toMs(worker.heartbeat_timeout ?? (seen ? '30s' : '10s'));
