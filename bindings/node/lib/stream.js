'use strict';
// Text of ids that come one after the other, as from a model.

const { resultOf } = require('./door.js');

/**
 * Makes one: of the addon's object, and of what reads the ids of a caller.
 * @type {(native: any, idsOf: (ids: any) => Uint32Array) => DecodeStream}
 */
let decodeStreamOf;

/**
 * Decodes ids as they come, and gives text when it is complete: a character may take several tokens. `Tokenizer.decodeStream` makes it.
 */
class DecodeStream {
  static {
    decodeStreamOf = (native, idsOf) => new DecodeStream(native, idsOf);
  }

  #native;
  #idsOf;

  /**
   * @param {any} native
   * @param {(ids: any) => Uint32Array} idsOf
   * @private
   */
  constructor(native, idsOf) {
    this.#native = native;
    this.#idsOf = idsOf;
  }

  /**
   * The text that is complete with an id, or several: often of one token, empty within a character.
   * @param {number | import('./tokenizer.js').IdsLike} ids
   * @returns {string}
   */
  push(ids) {
    return resultOf(this.#native.push(this.#idsOf(typeof ids === 'number' ? [ids] : ids)));
  }

  /**
   * The text of the ids that are left at the end: those of an incomplete character. The stream may be used again.
   * @returns {string}
   */
  end() {
    return resultOf(this.#native.finish());
  }

  /**
   * The texts of ids that come from a stream, a generator or another iterable, as they come.
   * @param {Iterable<number | import('./tokenizer.js').IdsLike> | AsyncIterable<number | import('./tokenizer.js').IdsLike>} source
   * @returns {AsyncGenerator<string, void, void>}
   */
  async *texts(source) {
    for await (const ids of source) {
      const text = this.push(ids);
      if (text !== '') {
        yield text;
      }
    }
    const rest = this.end();
    if (rest !== '') {
      yield rest;
    }
  }
}

module.exports = { DecodeStream, decodeStreamOf };
