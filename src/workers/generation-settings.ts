import { z } from 'zod';
import { BaseUrl } from '../model/base-url.js';
import { Duration } from '../model/durations.js';
import { EngineUrl } from '../model/policy/replicas.js';
import { recordOf } from '../model/untrusted.js';
import { cidrProblem, hostProblem, portsProblem } from '../platform/http/allowed.js';
import { MaxAnswer } from '../platform/size.js';
import { repeatedIn } from './one-engine.js';

/** Where the weights of each replica are changed. */
const ControlSettings = z
  .strictObject({
    urls: z
      .array(BaseUrl)
      .min(1)
      .nullable()
      .default(null)
      .describe("in the order of `base_urls`; null: each replica's base URL without `/v1`"),
    api_key_env: z
      .string()
      .nullable()
      .default(null)
      .describe("the variable that holds its key; null: the service's own"),
  })
  .prefault({});

const Ports = z
  .union([z.int().transform(String), z.string()])
  .superRefine((text, context) => {
    checked(portsProblem(text), context);
  })
  .describe('a port, or a range such as "8000-8999"');

const AllowSettings = z.union([
  z.strictObject({
    cidr: z
      .string()
      .superRefine((text, context) => {
        checked(cidrProblem(text), context);
      })
      .describe('a range of addresses, such as 10.1.0.0/16; also what a name leads to'),
    ports: Ports,
  }),
  z.strictObject({
    host: z
      .string()
      .superRefine((text, context) => {
        checked(hostProblem(text), context);
      })
      .describe('a name, or `*.` and the end of names'),
    ports: Ports,
  }),
]);

function checked(message: string | null, context: z.RefinementCtx): void {
  if (message !== null) context.addIssue({ code: 'custom', message });
}

export const GenerationServiceSettings = z
  .strictObject({
    kind: z.literal('vllm').describe('vLLM, or what speaks its wire'),
    base_urls: z
      .array(EngineUrl)
      .describe('one for each replica; each ends in `/v1`. Empty: all engines join (`allow`)'),
    model: z
      .string()
      .nullable()
      .default(null)
      .describe("the served name; null: the service's first"),
    api_key_env: z
      .string()
      .nullable()
      .default(null)
      .describe(
        'the variable that holds the key. Secrets are named and never written, so they are in no history, journal or log',
      ),
    special_tokens: z
      .array(z.string())
      .default([])
      .describe('texts to remove from content, for services whose detokenizer renders them'),
    role_map: recordOf(z.string().min(1))
      .default({})
      .describe('replaces roles for the chat template, for example `{environment: user}`'),
    images: z
      .enum(['engine', 'rendered_ids', 'none'])
      .default('engine')
      .describe(
        'images of prompts and observations: sent to the engine together with the ids (`engine`; a batch is refused if it cannot take them), left out (`rendered_ids`, for a gateway that adds the pictures), or refused (`none`)',
      ),
    first_token_timeout: Duration.default('10m').describe('from a request to its first token'),
    idle_timeout: Duration.default('2m').describe('between two chunks of a stream'),
    max_answer: MaxAnswer.optional().describe(
      'size limit of one answer, and of one event of a stream; absent: 16MiB',
    ),
    max_concurrent: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        'concurrent generations of one replica per worker process; null: an even share of `max_generations`',
      ),
    wire: z
      .enum(['completions', 'generate'])
      .default('completions')
      .describe(
        "`completions`: `/v1/completions`. `generate`: vLLM's `/inference/v1/generate`, which names the weights of each token at the end of its stream: what comes from an update on is lost if the worker dies before it",
      ),
    control: ControlSettings.describe('where the weights of each replica are changed'),
    allow: z
      .array(AllowSettings)
      .default([])
      .describe(
        'which engines may join beside `base_urls`: whoever may start workflows must not be able to send prompts and keys anywhere',
      ),
    forget_after: Duration.nullable()
      .default('1h')
      .describe('an engine that has joined, and is away for so long, leaves; null: never'),
  })
  .superRefine(({ base_urls, control, allow }, context) => {
    const { urls } = control;
    if (base_urls.length === 0 && allow.length === 0) {
      const message =
        'expected at least one URL, or `allow`, so that engines may join; got neither';
      context.addIssue({ code: 'custom', path: ['base_urls'], message });
    }
    const repeated = [
      ...repeatedIn(base_urls, ['base_urls']),
      ...repeatedIn(urls ?? [], ['control', 'urls']),
    ];
    for (const issue of repeated) context.addIssue({ code: 'custom', ...issue });
    if (urls === null || urls.length === base_urls.length) return;
    const message = `expected ${base_urls.length} URLs, one for each of base_urls, got ${urls.length}`;
    context.addIssue({ code: 'custom', path: ['control', 'urls'], message });
  });
export type GenerationServiceSettings = z.infer<typeof GenerationServiceSettings>;
