import { BaseUrl } from '../model/base-url.js';
import { z } from 'zod';
import { Positive, Word, oneOf, orNull, refuserOf, Duration } from '../model/field-kinds.js';
import { KINDS } from '../generation/adapters.js';
import { EngineUrl } from '../model/policy/replicas.js';
import { recordOf } from '../model/untrusted.js';
import { arePorts, isCidr, isHost } from '../platform/http/allowed.js';
import { MaxAnswer } from '../platform/size.js';
import { repeatedIn } from './one-engine.js';

const ControlSettings = z
  .strictObject({
    urls: orNull(z.array(BaseUrl).min(1)).describe(
      'control URL of each replica, in the order of `base_urls`; null: the base URL without `/v1`',
    ),
    api_key_env: orNull(z.string()).describe(
      "the environment variable that holds the key of these routes; null: the service's `api_key_env`",
    ),
  })
  .prefault({});

const Ports = z
  .union([z.int().transform(String), z.string()])
  .refine(arePorts, 'expected a port or a range of ports such as "8000-8999"')
  .describe('a port, or a range such as "8000-8999"');

const AllowSettings = z.union([
  z.strictObject({
    cidr: z
      .string()
      .refine(isCidr, 'expected a range of addresses such as 10.1.0.0/16 or fd00::/8')
      .describe(
        'a range of addresses, such as 10.1.0.0/16. Names that resolve into it are allowed, too',
      ),
    ports: Ports,
  }),
  z.strictObject({
    host: z
      .string()
      .refine(
        isHost,
        'expected a name such as gpu-1.ml.internal or *.vllm.ml.svc, in small letters',
      )
      .describe('a host name, such as gpu-1.ml.svc, or `*.ml.svc` for all names that end so'),
    ports: Ports,
  }),
]);

export const GenerationServiceSettings = z
  .strictObject({
    kind: z.enum(KINDS).describe('`vllm`: vLLM, or a server with the same API. `sglang`: SGLang'),
    base_urls: z
      .array(EngineUrl)
      .describe(
        'URL of each replica, which ends in `/v1`. Empty: all engines join later (`allow`)',
      ),
    model: orNull(z.string()).describe(
      'name of the served model; null: the first that the server lists',
    ),
    api_key_env: orNull(z.string()).describe('the environment variable that holds the key'),
    special_tokens: z
      .array(z.string())
      .default([])
      .describe('texts to remove from contents, for servers that write special tokens as text'),
    role_map: recordOf(Word)
      .default({})
      .describe('roles to replace in the chat template, for example `{environment: user}`'),
    images: oneOf(['engine', 'rendered_ids', 'none'], 'engine').describe(
      'images of prompts and observations. `engine`: sent to the engine with the ids; planning refuses an engine that cannot take them. `rendered_ids`: left out, for a gateway that adds them. `none`: refused',
    ),
    first_token_timeout: Duration.default('10m').describe(
      "longest time from a request to its first token, the engine's queue included",
    ),
    idle_timeout: Duration.default('2m').describe('longest time between two chunks of a stream'),
    max_answer: MaxAnswer.optional().describe(
      'size limit of one answer, and of one event of a stream; absent: 16MiB',
    ),
    max_concurrent: orNull(Positive).describe(
      'generations that each worker process has open at one replica; null: an even share of `max_generations`',
    ),
    wire: oneOf(['completions', 'generate'], 'completions').describe(
      "route that samples. `completions`: `/v1/completions`. `generate`: vLLM's `/inference/v1/generate`, whose streams survive an update of weights. If the worker dies during such a stream, its tokens since the update are lost",
    ),
    control: ControlSettings.describe('routes by which the weights of replicas change'),
    allow: z
      .array(AllowSettings)
      .default([])
      .describe(
        'addresses at which engines may join beside `base_urls`. Prompts and keys go to no others',
      ),
    forget_after: Duration.nullable()
      .default('1h')
      .describe(
        'an engine that has joined leaves when it has been `away` for this time, since it missed an update of weights, and has to join again; null: never. One of `base_urls` stays, and serves again when it answers',
      ),
  })
  .superRefine(({ kind, wire, base_urls, control, allow }, context) => {
    const refuse = refuserOf(context);
    if (kind !== 'vllm' && wire === 'generate') {
      const message = `expected none, since kind ${kind} has one route that samples; got "generate"`;
      refuse(['wire'], message);
    }
    const { urls } = control;
    if (base_urls.length === 0 && allow.length === 0) {
      const message =
        'expected at least one URL, or `allow`, so that engines may join; got neither';
      refuse(['base_urls'], message);
    }
    const repeated = [
      ...repeatedIn(base_urls, ['base_urls']),
      ...repeatedIn(urls ?? [], ['control', 'urls']),
    ];
    for (const { path, message } of repeated) refuse(path, message);
    if (urls === null || urls.length === base_urls.length) return;
    const message = `expected ${base_urls.length} URLs, one for each of base_urls, got ${urls.length}`;
    refuse(['control', 'urls'], message);
  });
export type GenerationServiceSettings = z.infer<typeof GenerationServiceSettings>;
