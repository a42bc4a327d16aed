// USB at high speed behind an ULPI PHY, whose clock has its edges with that of the top.
#pragma once
#include "session.h"
#include "ulpi_phy.h"

namespace {

class Line : public usb::UsbLine<usb::UlpiBus<true>> {
  public:
    explicit Line(const char*)
        : UsbLine([this](bool dir, bool nxt, uint8_t data) {
              dir_ = dir;
              nxt_ = nxt;
              data_ = data;
              give_way();
              return link_;
          }, 1) {}
    template <class Top> void begin(Top& top) { top.usb_clk = top.usb_dir = top.usb_nxt = top.usb_data_i = 0; }
    template <class Top> void drive(Top& top) {
        go_on();
        top.usb_dir = dir_;
        top.usb_nxt = nxt_;
        top.usb_data_i = data_;
        top.eval();
        link_ = {uint8_t(top.usb_data_oe & 1 ? top.usb_data_o : 0), bool(top.usb_stp)};
    }
    template <class Top> void half(Top& top) {
        top.usb_clk = top.clk;
        top.eval();
    }
    template <class Top> void sample(Top&) {}

  private:
    bool dir_ = false, nxt_ = false;
    uint8_t data_ = 0;
    usb::UlpiBus<true>::Link link_{};
};

}  // namespace
