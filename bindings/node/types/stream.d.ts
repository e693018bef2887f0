/**
 * Decodes ids as they come, and gives text when it is complete: a character may take several tokens. `Tokenizer.decodeStream` makes it.
 */
export class DecodeStream {
    /**
     * @param {any} native
     * @param {(ids: any) => Uint32Array} idsOf
     * @private
     */
    private constructor();
    /**
     * The text that is complete with an id, or several: often of one token, empty within a character.
     * @param {number | import('./tokenizer.js').IdsLike} ids
     * @returns {string}
     */
    push(ids: number | import("./tokenizer.js").IdsLike): string;
    /**
     * The text of the ids that are left at the end: those of an incomplete character. The stream may be used again.
     * @returns {string}
     */
    end(): string;
    /**
     * The texts of ids that come from a stream, a generator or another iterable, as they come.
     * @param {Iterable<number | import('./tokenizer.js').IdsLike> | AsyncIterable<number | import('./tokenizer.js').IdsLike>} source
     * @returns {AsyncGenerator<string, void, void>}
     */
    texts(source: Iterable<number | import("./tokenizer.js").IdsLike> | AsyncIterable<number | import("./tokenizer.js").IdsLike>): AsyncGenerator<string, void, void>;
    #private;
}
/**
 * Makes one: of the addon's object, and of what reads the ids of a caller.
 * @type {(native: any, idsOf: (ids: any) => Uint32Array) => DecodeStream}
 */
export let decodeStreamOf: (native: any, idsOf: (ids: any) => Uint32Array) => DecodeStream;
