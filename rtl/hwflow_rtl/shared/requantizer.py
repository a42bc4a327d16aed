"""TEMP"""
from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from ..stream.pipeline import delay
from ..vendor.base import Resources
class SharedRequantizer(wiring.Component):
    def __init__(self, *, accumulator, room, fraction, rounding, interval, style, technology):
        self.room=room; self.fraction=fraction; self.latency=3
        super().__init__({"i_valid":In(1),"i_value":In(accumulator),"bias":In(signed(room.bias_bits)),"factor":In(room.factor_bits),"extra":In(room.extra.bit_length()),"zero_point":In(signed(9)),"low":In(signed(8)),"high":In(signed(8)),"o_valid":Out(1),"o_value":Out(signed(8))})
    @staticmethod
    def cost(**k): return Resources(lut=500,ff=300)
    def elaborate(self, platform):
        m=Module(); r=self.room
        p=Signal(signed(80)); e=Signal(6); q=Signal(signed(80)); d=Signal(signed(80))
        m.d.sync+=[p.eq(((self.i_value<<self.fraction)+self.bias)*self.factor), e.eq(self.extra+r.base)]
        fl=Signal(signed(80)); rest=Signal(80); half=Signal(80)
        m.d.comb+=[fl.eq(p>>e), rest.eq(p & ((C(1,80)<<e)-1)), half.eq(Mux(e==0,0,(C(1,80)<<e)>>1))]
        m.d.sync+=q.eq(fl + ((rest>half) | ((rest==half)&(e!=0)&fl[0])) + self.zero_point)
        m.d.sync+=self.o_value.eq(Mux(q<self.low,self.low,Mux(q>self.high,self.high,q)))
        m.d.comb+=self.o_valid.eq(delay(m,self.i_valid,3,"v",reset_less=False))
        return m
