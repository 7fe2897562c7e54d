import { BaseUrl } from '../model/base-url.js';
import { z } from 'zod';
import { Positive, Word, orNull, Duration } from '../model/field-kinds.js';
import { durationProblem, toMs } from '../model/workflow-safe/durations.js';
import { bytesOf, Size } from '../platform/size.js';

const Role = z.enum(['workflow', 'generation', 'environment', 'gateway']);

/** What the process itself takes; with less, nothing is left for its work (memory.ts). */
const LEAST_MEMORY = '256MiB';

const Memory = Size.refine((text) => bytesOf(text) >= bytesOf(LEAST_MEMORY), {
  error: ({ input }) => `expected ${LEAST_MEMORY} or more, got ${JSON.stringify(input)}`,
});

const Listen = z
  .string()
  .regex(
    /^(\[[0-9a-fA-F:.]+\]|[^\s:/[\]]+):\d{1,5}$/,
    'expected host:port, such as 127.0.0.1:0 (port 0: any free one)',
  );

const GatewaySettings = z
  .strictObject({
    listen: Listen.default('127.0.0.1:0').describe(
      'host:port. Port 0 is another free port after each start, so programs that still run must begin again',
    ),
    advertise: orNull(BaseUrl).describe(
      'URL by which programs reach the gateway, without `/v1`; null: that of `listen`, which only this host reaches',
    ),
    direct: orNull(BaseUrl).describe(
      'URL by which programs reach this worker alone, if `advertise` leads to several; null: `advertise`',
    ),
    secret_env: orNull(Word).describe(
      "the environment variable that holds the secret of programs' keys, the same on all workers; null: a secret in the store",
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
        'work that this process does. `gateway` redirects each request of a program (an agent) to the worker that plays its rollout; role `environment` with an agent does that, too',
      ),
    max_generations: Positive.default(256).describe(
      'generations of each service that this process has open at once',
    ),
    turn_slice: z
      .union([Duration, z.literal('0s')], { error: ({ input }) => durationProblem(input) })
      .default('10m')
      .describe('longest time that one activity plays turns; 2 s while all slots are taken'),
    heartbeat_timeout: orNull(Duration).describe(
      'silence after which an activity runs again elsewhere; null: `30s`, more for many rollouts, `10s` on servers without worker heartbeats',
    ),
    memory: Memory.default('1GiB').describe(
      'memory that the process plans with. It decides the size of caches and the number of activities at once',
    ),
    gateway: GatewaySettings.describe('where programs of agents ask the policy'),
  })
  .prefault({});

/** The heartbeat timeout of activities that play; `seen`: other workers notice the death of one. */
export const heartbeatMs = (
  { worker }: { worker: Pick<z.infer<typeof WorkerSettings>, 'heartbeat_timeout'> },
  seen: boolean,
): number => toMs(worker.heartbeat_timeout ?? (seen ? '30s' : '10s'));
